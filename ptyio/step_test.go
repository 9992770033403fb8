package ptyio

import (
	"errors"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/execbus/execbus/messages"
)

func TestAFailedStepIsToldFromTheProgram(t *testing.T) {
	launch := Launch{Dir: t.TempDir()}
	for _, test := range []struct {
		err           error
		subject, says string
		code          messages.ErrorCode
	}{
		{&StepError{"chdir", syscall.ENOENT}, strconv.Quote(launch.Dir), "working directory", messages.ErrSpawnFailed},
		{&StepError{"chdir", syscall.EACCES}, strconv.Quote(launch.Dir), "working directory", messages.ErrSpawnFailed},
		{&StepError{"execve", syscall.ENOENT}, "/missing", "no such program", messages.ErrNoSuchProgram},
		{syscall.ENOENT, "/missing", "no such program", messages.ErrNoSuchProgram},
		{&StepError{"setsid", syscall.EACCES}, "/missing", "setsid: permission denied", messages.ErrSpawnFailed},
		{&StepError{"clone", syscall.EAGAIN}, "/missing", "clone: resource temporarily unavailable", messages.ErrSpawnFailed},
	} {
		failure, ok := errors.AsType[*messages.Error](startError(launch, "/missing", test.err))
		if !ok || failure.Subject != test.subject || failure.Code != test.code || !strings.Contains(failure.Detail, test.says) {
			t.Errorf("%v: %v", test.err, failure)
		}
	}
	scarce, _ := errors.AsType[*messages.Error](startError(launch, "/missing", &StepError{"clone", syscall.EAGAIN}))
	if scarce == nil || !strings.Contains(scarce.Detail, "end other commands") {
		t.Error("no advice where the system is short of processes")
	}
}
