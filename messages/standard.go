package messages

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
)

// StandardError names an error of the standard library that an Error also matches, if its code alone does not imply that.
type StandardError string

// The standard errors.
const (
	LikeCanceled         StandardError = "canceled"          // context.Canceled
	LikeDeadlineExceeded StandardError = "deadline_exceeded" // context.DeadlineExceeded for ErrCancelled and ErrUnreachable, otherwise os.ErrDeadlineExceeded
	LikeNotExist         StandardError = "not_exist"         // fs.ErrNotExist
	LikePermission       StandardError = "permission"        // fs.ErrPermission
)

// LikeOf is the standard error that an error matches; empty if it matches none of them.
func LikeOf(err error) StandardError {
	switch {
	case errors.Is(err, context.Canceled):
		return LikeCanceled
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return LikeDeadlineExceeded
	case errors.Is(err, fs.ErrNotExist):
		return LikeNotExist
	case errors.Is(err, fs.ErrPermission):
		return LikePermission
	}
	return ""
}

// ofContext reports whether a deadline was the context's, and not that of an input.
func (e *Error) ofContext() bool { return e.Code == ErrCancelled || e.Code == ErrUnreachable }

// standard reports whether e matches an error of the standard library.
func (e *Error) standard(target error) bool {
	switch target {
	case exec.ErrNotFound:
		return e.Code == ErrNoSuchProgram
	case fs.ErrNotExist:
		return e.Code == ErrNoSuchProgram || e.Like == LikeNotExist
	case fs.ErrPermission:
		return e.Like == LikePermission
	case context.Canceled:
		return e.Like == LikeCanceled
	case context.DeadlineExceeded:
		return e.Like == LikeDeadlineExceeded && e.ofContext()
	case os.ErrDeadlineExceeded:
		return e.Like == LikeDeadlineExceeded && !e.ofContext()
	}
	return false
}
