package isolate

import (
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/seccomp"
)

// Probe isolates a command that does nothing, with a network of its own, once, and says which step failed: a *birth.Error. A kernel
// may refuse any of them, and some systems let the first ones pass.
var Probe = sync.OnceValue(func() error { return probe(true, false) })

// ProbeShared does the same for a command on the host's network.
var ProbeShared = sync.OnceValue(func() error { return probe(false, false) })

// ProbeProc does the same as ProbeShared, and also fails if the host's /proc would stay.
var ProbeProc = sync.OnceValue(func() error { return probe(false, true) })

func probe(own, strict bool) error {
	runtime.LockOSThread() // the command dies with the thread
	defer runtime.UnlockOSThread()
	launch := Launch{Plan: &confine.Plan{Network: !own}, OwnProc: strict, Filter: seccomp.Filter(seccomp.Kind{Network: seccomp.Private})}
	if own {
		network, err := NewNetwork()
		if err != nil {
			return err
		}
		defer network.Close()
		launch.Network = network
	}
	reports, report, err := Reports()
	if err != nil {
		return err
	}
	defer reports.Close()
	launch.Report = report
	n, err := birth.BeginFamily(Family(launch))
	_ = unix.Close(report)
	if err != nil {
		return err
	}
	err = n.Wait()
	n.Release()
	_ = n.Kill()
	n.Reap()
	_ = unix.Close(n.PIDFD)
	return err
}
