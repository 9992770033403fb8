//go:build !linux

package main

import (
	"errors"
	"syscall"
)

func signalChild(syscall.Signal, int, int) (bool, error) {
	return false, errors.New("there are no pidfds on this platform")
}
