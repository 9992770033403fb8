package birth

import (
	"errors"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/refusetest"
)

// Where the kernel refuses our clone, a launch is plain or is not made: no step is left out that protects anybody.
func TestWhereTheCloneIsRefusedOnlyPlainLaunchesAreMade(t *testing.T) {
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: its filter cannot be removed
		if err := refusetest.Clone(refusetest.ThisThread); err != nil {
			close(failed)
			return
		}
		_, _, err := Start([]Step{NoNewPrivs(), shell("exit 0")})
		failed <- err
		n, err := Begin([]Step{Setsid(), shell("exit 0")})
		if err == nil {
			if !n.Plain() {
				err = errors.New("the clone was not refused")
			}
			_ = unix.Close(n.PIDFD)
			n.Reap()
			n.Release()
		}
		failed <- err
	}()
	err, seccomp := <-failed
	if !seccomp {
		t.Skip("skipped: no seccomp here")
	}
	if step, is := errors.AsType[*Error](err); !is || *step != (Error{"no_new_privs", 0, unix.ENOSYS}) {
		t.Error(err)
	}
	if err := <-failed; err != nil {
		t.Error(err)
	}
	if err := Refused(); err != nil {
		t.Errorf("our kernel refuses it, too: %v", err)
	}
}

func TestALackOfProcessesIsNoRefusalForGood(t *testing.T) {
	for errno, refuses := range map[unix.Errno]bool{unix.EINVAL: true, unix.ENOSYS: true, unix.EAGAIN: false, unix.ENOMEM: false} {
		if err := refusal(&Error{Step: "clone", Errno: errno}); (err != nil) != refuses {
			t.Errorf("%v: %v", errno, err)
		}
	}
}
