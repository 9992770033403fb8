package isolate

import (
	"cmp"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/seccomp"
)

// Probe isolates a command that does nothing, with a network of its own or on the host's, once each. The error is a *birth.Error with the
// step that failed. A kernel may refuse any step, and on some systems only the later ones fail. The second error says why the host's
// /proc would stay.
func Probe(own bool) (refused, noProc error) {
	if own {
		return probeOwn()
	}
	return probeShared()
}

var probeOwn, probeShared = probeOnce(true), probeOnce(false)

func probeOnce(own bool) func() (refused, noProc error) {
	return sync.OnceValues(func() (refused, noProc error) {
		if noProc = probe(own, Launch{OwnProc: true}); noProc != nil {
			refused = probe(own, Launch{})
		}
		return refused, noProc
	})
}

// ProbeTasks does the same for Launch.Tasks, which needs Linux 6.14: before it all namespaces share one bound, which nobody but the
// administrator may change.
var ProbeTasks = sync.OnceValue(func() error {
	var system unix.Utsname
	_ = unix.Uname(&system)
	release := strings.SplitN(unix.ByteSliceToString(system.Release[:]), ".", 3)
	major, _ := strconv.Atoi(release[0])
	minor, _ := strconv.Atoi(append(release, "")[1])
	if major < 6 || major == 6 && minor < 14 {
		return &birth.Error{Step: "pid_max of a namespace", Errno: unix.ENOSYS}
	}
	return probe(false, Launch{Tasks: 1})
})

// ProbeListener makes a network with listeners, through which commands talk to named hosts.
var ProbeListener = sync.OnceValue(func() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	network, sockets, err := NewNetwork(confine.ProxyPort, []int{443})
	if err != nil {
		return err
	}
	network.Close()
	for _, socket := range sockets {
		err = cmp.Or(err, unix.Close(socket))
	}
	return err
})

func probe(own bool, launch Launch) error {
	runtime.LockOSThread() // the command dies with the thread
	defer runtime.UnlockOSThread()
	launch.Plan, launch.Filter = &confine.Plan{Network: !own}, seccomp.Filter(seccomp.Kind{Network: seccomp.Private})
	if own {
		network, sockets, err := NewNetwork(0, nil)
		if err != nil {
			return err
		}
		defer network.Close()
		for _, socket := range sockets {
			_ = unix.Close(socket)
		}
		launch.Network = network
	}
	reports, report, err := Reports()
	if err != nil {
		return err
	}
	defer reports.Close()
	launch.Report = report
	n, err := birth.BeginNamespaced(Namespaced(launch))
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
