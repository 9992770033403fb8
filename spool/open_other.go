//go:build !linux

package spool

import "os"

func openNameless(string) (*os.File, error) { return nil, nil }
