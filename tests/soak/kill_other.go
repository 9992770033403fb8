//go:build !linux

package main

import "errors"

func killChild(int, int, string) (bool, error) {
	return false, errors.New("there are no pidfds on this platform")
}
