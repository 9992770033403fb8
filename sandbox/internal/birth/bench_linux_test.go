package birth

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkBirth compares our births with those of package syscall: go test -bench . -run -
func BenchmarkBirth(b *testing.B) {
	steps := append(Files([]int{0, 1, 2}), Execve("/bin/true", []string{"true"}, environment))
	for name, start := range map[string]func([]Step) (int, int, error){"ours": Start, "ForkExec": forkExec} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				pid, pidfd, err := start(append([]Step{Setsid()}, steps...))
				if err != nil {
					b.Fatal(err)
				}
				_, _ = syscall.Wait4(pid, nil, 0, nil)
				_ = unix.Close(pidfd)
			}
		})
	}
}
