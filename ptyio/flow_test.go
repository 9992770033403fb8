//go:build linux

package ptyio_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// credit returns how many batches of one stream can be out.
func credit(tty bool) int {
	if tty {
		return ptyio.Credits
	}
	return ptyio.Credits / 2
}

// written returns how many bytes the leader has written so far, by the kernel's count.
func written(t testing.TB, r *record) (n int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", r.PID()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(string(text[strings.Index(string(text), "wchar"):]), "wchar: %d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// stalls waits until the leader makes no progress for a while and returns how far it came.
func stalls(t testing.TB, r *record) (n int64) {
	t.Helper()
	eventually(t, "the leader waits", func() bool {
		before := written(t, r)
		after(100 * time.Millisecond)
		n = written(t, r)
		return n == before
	})
	return n
}

func TestAReceiverThatReleasesNothingStopsTheChild(t *testing.T) {
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		r := startHolding(t, spawner, launch(tty, "yes"), true)
		r.await(t, "all credit is used", func() bool { return len(r.held) == credit(tty) })
		first := stalls(t, r)
		most := int64(ptyio.Credits*ptyio.MaxBatch + 128<<10)
		if isRemote(spawner) { // what is on the way waits, too
			most += 4<<20 + ptyio.Credits*ptyio.MaxBatch
		}
		if first > most || r.most() > credit(tty) {
			t.Errorf("the child wrote %d bytes, with %d batches out", first, r.most())
		}
		r.release()
		r.await(t, "more output", func() bool { return int64(len(r.main())) > 2*first })
		r.EndTree(0)
		r.awaitEnd(t)
	})
}

func TestStderrIsReadWithoutActivityOnStdout(t *testing.T) {
	text := letterFile(t, 300<<10)
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		r := start(t, spawner, shell(false, "cat "+text+" >&2; read word; echo end"))
		r.await(t, "all of stderr", func() bool { return r.output[messages.StreamStderr].Len() == 300<<10 })
		r.write(t, "\n")
		r.awaitEnd(t)
		if r.text() != "end\n" {
			t.Errorf("stdout %q", r.text())
		}
	})
}

func TestAbandonFreesEverythingWithoutARelease(t *testing.T) {
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		start(t, spawner, launch(tty, "true")).awaitEnd(t)
		before, goroutines := descriptors(), runtime.NumGoroutine()
		var all []*record
		for range 8 {
			r := startHolding(t, spawner, launch(tty, "yes"), true)
			r.await(t, "all credit is used", func() bool { return len(r.held) == credit(tty) })
			all = append(all, r)
		}
		for _, r := range all {
			r.Abandon()
			if status := r.awaitEnd(t); status == messages.StatusExited(0) {
				t.Errorf("yes ended with %v", status)
			}
		}
		eventually(t, "no more descriptors than before", func() bool { return descriptors() <= before })
		eventually(t, "no more goroutines than before", func() bool { return runtime.NumGoroutine() <= goroutines })
		for _, r := range all {
			r.release() // too late, and without effect
		}
	})
}

func TestAnAbandonedIdleChildIsClosed(t *testing.T) {
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		r := start(t, spawner, launch(tty, "cat"))
		r.Abandon()
		r.Abandon()
		r.awaitEnd(t)
	})
}

func processorTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func TestATerminalThatIsClosedAndOpenedAgainGoesOn(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		closed, open, end := newGate(t), newGate(t), newGate(t)
		r := start(t, spawner, shell(true, fmt.Sprintf(`echo before
exec <&- >&- 2>&-
echo closed >%s
for i in 1 2 3; do
	read word <%s
	echo again $i >/dev/tty
done
read word <%s
exit 4`, closed.path, open.path, end.path)))
		closed.pass(t)
		eventually(t, "the reader of a terminal that nobody has open rests", func() bool { // other goroutines of this process may not yet
			began := processorTime()
			after(300 * time.Millisecond)
			used := processorTime() - began
			t.Logf("%v of 300ms were used", used)
			return used <= 60*time.Millisecond
		})
		for i := range 3 {
			open.open(t, "go")
			r.awaitOutput(t, fmt.Sprintf("again %d", i+1))
		}
		if has[ptyio.Closed](r) {
			t.Error("Closed was reported while the leader lives")
		}
		end.open(t, "go")
		if status := r.awaitEnd(t); status != messages.StatusExited(4) {
			t.Errorf("status %v", status)
		}
	})
}

// alone marks the process in which TestTwoHundredIdleChildren counts threads: other tests would add theirs.
const alone = "PTYIO_TEST_ALONE"

func TestTwoHundredIdleChildrenCostNeitherThreadsNorBuffers(t *testing.T) {
	if os.Getenv(alone) == "" {
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		again.Env = append(os.Environ(), alone+"=1")
		if output, err := again.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		return
	}
	for _, direct := range []bool{true, false} {
		countIdle(t, direct)
	}
}

func countIdle(t *testing.T, direct bool) {
	spawner, err := sandbox.New(sandbox.Options{Direct: direct})
	if err != nil {
		t.Fatal(err)
	}
	defer spawner.Close()
	start(t, spawner, launch(true, "true")).awaitEnd(t)
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	files := descriptors()
	var all []*record
	for range 200 {
		r := start(t, spawner, launch(true, "cat"))
		r.write(t, "hello\n")
		all = append(all, r)
	}
	for _, r := range all {
		r.awaitOutput(t, "hello\r\nhello\r\n")
	}
	// A thread for each child would be more than that. The starts may have left some threads, and more of them on a busy
	// machine. What has just passed the output on may still have its buffer.
	var each int64
	var tasks []os.DirEntry
	idle := func() bool {
		runtime.GC()
		runtime.ReadMemStats(&now)
		each = (int64(now.HeapInuse+now.StackInuse) - int64(before.HeapInuse+before.StackInuse)) / int64(len(all))
		tasks, _ = os.ReadDir("/proc/self/task")
		return len(tasks) <= len(all)/2 && each < ptyio.MaxBatch
	}
	defer func() { t.Logf("direct %v: %d threads, %d bytes a child", direct, len(tasks), each) }()
	eventually(t, "200 idle children cost no thread and no buffer each", idle)
	for _, r := range all {
		r.EndTree(0)
	}
	for _, r := range all {
		r.awaitEnd(t)
	}
	eventually(t, "no more descriptors than before", func() bool { return descriptors() <= files })
}
