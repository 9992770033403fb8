//go:build linux

package sandbox_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// crowd is how many process numbers there are. The kernel uses the first 300 of them only in the first round.
const crowd = 400

// beCrowded is a host in a pid namespace in which numbers are used again within a moment. Beside its commands, strangers
// come and go. No signal may hit a stranger.
func beCrowded() {
	if err := os.WriteFile("/proc/sys/kernel/pid_max", []byte(strconv.Itoa(crowd)), 0); err != nil {
		fmt.Println("not here:", err)
		return
	}
	cycles, err := strconv.Atoi(os.Getenv("CYCLES"))
	must(err)
	spawner, err := sandbox.New(sandbox.Options{})
	must(err)
	var left, done, refused, strangers, hit atomic.Int64
	left.Store(int64(cycles))
	var commands, others sync.WaitGroup
	over := make(chan struct{})
	for range 8 {
		others.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				stranger := exec.Command("sh", "-c", fmt.Sprintf(`trap "" TERM; exec sleep 0.%03d`, rand.IntN(20)))
				if stranger.Start() != nil {
					continue // there is no number left
				}
				strangers.Add(1)
				if err := stranger.Wait(); err != nil {
					hit.Add(1)
					fmt.Println("a stranger:", err)
				}
			}
		})
	}
	for range 4 {
		commands.Go(func() {
			for left.Add(-1) >= 0 {
				if cycle(spawner) {
					done.Add(1)
				} else {
					refused.Add(1)
				}
			}
		})
	}
	commands.Wait()
	close(over)
	others.Wait()
	must(spawner.Close())
	fmt.Printf("cycles %d, refused %d, strangers %d, hit %d\n", done.Load(), refused.Load(), strangers.Load(), hit.Load())
}

// cycle starts a command, and signals and ends it. Parts of the command die at any moment.
func cycle(spawner ptyio.Spawner) bool {
	record, grace := newRecorder(), time.Duration(rand.IntN(2))*5*time.Millisecond
	l := launch(false, "sh", "-c", []string{
		`(setsid sleep 0.005 &); sleep 0.003 & :`,
		`(setsid sleep 1000 &); exec sleep 0.002`,
		`sleep 0.001 & sleep 0.002 & sleep 1000`,
		`(setsid sh -c "sleep 0.002 & exit" &); sleep 0.001`,
	}[rand.IntN(4)])
	if rand.IntN(4) == 0 { // a process that ignores SIGTERM gets SIGHUP later, when its number may belong to another process
		l = launch(true, "sh", "-c", `trap "" TERM HUP; sleep 0.01 & sleep 0.012 & sleep 0.015 & wait; exec sleep 1`)
		grace = 60 * time.Millisecond
	}
	l.Events = record.receive
	child, err := spawner.Spawn(context.Background(), l)
	if err != nil {
		return false
	}
	time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond) // any moment is a good one
	_ = child.Signal(syscall.SIGTERM, []ptyio.Scope{ptyio.Foreground, ptyio.Tree}[rand.IntN(2)])
	time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
	child.EndTree(grace)
	if report := record.untilTheEnd(); !clean(report) {
		fmt.Printf("report: %+v\n", report)
	}
	return true
}

func TestNoStrangerIsHitWhereNumbersComeAgainAtOnce(t *testing.T) {
	t.Parallel() // it waits most of the time
	cycles := 300
	if *full {
		cycles = 100_000
	}
	var system unix.Utsname
	var major, minor int
	_ = unix.Uname(&system)
	if _, err := fmt.Sscanf(unix.ByteSliceToString(system.Release[:]), "%d.%d", &major, &minor); err != nil || major < 6 || major == 6 && minor < 14 {
		t.Skip("before Linux 6.14 all namespaces share one limit of numbers") // and root would change it for all
	}
	in := []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}
	if os.Geteuid() != 0 {
		in = append(in, "--user", "--map-root-user")
	}
	if out, err := exec.Command(in[0], append(slices.Clone(in[1:]), "true")...).CombinedOutput(); err != nil {
		t.Skipf("no pid namespaces here: %v %s", err, out)
	}
	host := exec.CommandContext(t.Context(), in[0], append(slices.Clone(in[1:]), self(t))...)
	host.Env = environment(roleVariable+"=crowded", "CYCLES="+strconv.Itoa(cycles))
	out, err := host.CombinedOutput()
	if strings.Contains(string(out), "not here") {
		t.Skipf("no limit of numbers for a namespace: %s", out)
	}
	var done, refused, strangers, hit int
	text := strings.TrimSpace(string(out))
	_, scanned := fmt.Sscanf(text, "cycles %d, refused %d, strangers %d, hit %d", &done, &refused, &strangers, &hit)
	if err != nil || scanned != nil || hit != 0 || refused > cycles/10 || done < crowd/4 || strangers == 0 {
		t.Fatalf("%v %v %.4000s", err, scanned, text)
	}
	t.Log(text)
}
