package isolate

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/seccomp"
)

// BenchmarkStart measures from the start to the end of /bin/true.
func BenchmarkStart(b *testing.B) {
	shared := network(b)
	plan := &confine.Plan{Rules: []confine.Rule{rule(b, b.TempDir(), confine.Write)}}
	filter := seccomp.Filter(seccomp.Kind{Network: seccomp.Private})
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			pid, pidfd, err := birth.Start(append(birth.Files([]int{-1, -1, -1}), birth.Execve("/bin/true", []string{"true"}, nil)))
			if err != nil {
				b.Fatal(err)
			}
			(&birth.Child{PID: pid}).Reap()
			_ = unix.Close(pidfd)
		}
	})
	for _, variant := range []struct {
		name    string
		network *Network
		filter  []unix.SockFilter
	}{{"isolated", nil, filter}, {"isolated with a network", shared, filter}, {"isolated without seccomp", nil, nil}} {
		b.Run(variant.name, func(b *testing.B) {
			var report [2]int
			if err := unix.Pipe2(report[:], unix.O_CLOEXEC); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				n, err := birth.BeginNamespaced(Namespaced(Launch{Plan: plan, Files: []int{-1, -1, -1}, Report: report[1], Network: variant.network,
					Program: "/bin/true", Argv: []string{"true"}, Filter: variant.filter}))
				if err == nil {
					err = n.Wait()
				}
				if err != nil {
					b.Fatal(err)
				}
				n.Release()
				n.Reap()
				_ = unix.Close(n.PIDFD)
				var room [64]byte
				_, _ = unix.Read(report[0], room[:])
			}
			_, _ = unix.Close(report[0]), unix.Close(report[1])
		})
	}
}
