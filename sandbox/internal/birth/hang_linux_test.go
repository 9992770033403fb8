package birth

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/leasetest"
)

// begin begins a birth that hangs in the step of that name.
func begin(t *testing.T, in string, steps ...Step) (n *Child, done <-chan error) {
	t.Helper()
	n, err := Begin(steps)
	if err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(patience); n.Step() != in; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("it hangs in %q", n.Step())
		}
	}
	if n.Prompt(50 * time.Millisecond) {
		t.Fatalf("it does not hang: %v", n.Wait())
	}
	result := make(chan error, 1)
	go func() { result <- n.Wait() }()
	return n, result
}

func receive(t *testing.T, from <-chan error) error {
	t.Helper()
	select {
	case err := <-from:
		return err
	case <-time.After(patience):
		t.Fatal("it never came")
		return nil
	}
}

// collect makes the garbage collector stop everything. It cannot do that while a thread keeps its place in the scheduler.
func collect(t *testing.T) {
	t.Helper()
	done := make(chan error, 1)
	go func() { runtime.GC(); done <- nil }()
	_ = receive(t, done)
}

func TestAnExecutionThatHangsHoldsNothing(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	program, giveBack := leasetest.Leased(t, "/bin/true")
	n, done := begin(t, "execve", Setsid(), Execve(program, []string{"true"}, nil))
	for range 10 {
		collect(t)
		pid, pidfd, err := Start([]Step{shell("exit 5")})
		if err != nil {
			t.Fatal(err)
		}
		if status := reap(t, pid, pidfd); status.ExitStatus() != 5 {
			t.Errorf("status %#x", status)
		}
	}
	if len(done) > 0 {
		t.Fatal("it does not hang any more")
	}
	giveBack()
	if err := receive(t, done); err != nil {
		t.Error(err)
	}
	if status := reap(t, n.PID, n.PIDFD); status != 0 {
		t.Errorf("status %#x", status)
	}
}

// A handler would run in this process's memory.
func TestASignalThatIsHandledHereEndsAChild(t *testing.T) {
	got := make(chan os.Signal, 1)
	signal.Notify(got, unix.SIGUSR2)
	defer signal.Stop(got)
	program, _ := leasetest.Leased(t, "/bin/true")
	die := func(t *testing.T) {
		n, done := begin(t, "execve", Setsid(), Execve(program, []string{"true"}, nil))
		if err := unix.Kill(n.PID, unix.SIGUSR2); err != nil {
			t.Fatal(err)
		}
		if err := receive(t, done); err == nil {
			t.Error("it was executed all the same")
		}
		if status := reap(t, n.PID, n.PIDFD); status.Signal() != unix.SIGUSR2 {
			t.Errorf("status %#x", status)
		}
	}
	die(t)
	if len(got) > 0 {
		t.Error("this process was told of a signal that the child had got")
	}
}

func TestAChildThatIsStoppedHoldsNothing(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	n, done := begin(t, "wait", step("wait", unix.SYS_READ, number(read.Fd()), values{0}, number(1)), shell("exit 6"))
	if err := unix.PidfdSendSignal(n.PIDFD, unix.SIGSTOP, nil, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := write.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		collect(t)
		pid, pidfd, err := Start([]Step{shell("exit 5")})
		if err != nil {
			t.Fatal(err)
		}
		_ = reap(t, pid, pidfd)
	}
	if len(done) > 0 {
		t.Fatal("it does not hang any more")
	}
	_ = unix.PidfdSendSignal(n.PIDFD, unix.SIGCONT, nil, 0)
	if err := receive(t, done); err != nil {
		t.Error(err)
	}
	if status := reap(t, n.PID, n.PIDFD); status.ExitStatus() != 6 {
		t.Errorf("status %#x", status)
	}
}

func TestAChildThatHangsIsKilled(t *testing.T) {
	program, _ := leasetest.Leased(t, "/bin/true")
	before := descriptors(t)
	n, done := begin(t, "execve", Setsid(), Execve(program, []string{"true"}, nil))
	if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != unix.ECHILD {
		t.Errorf("who waits for children sees %d, %v", pid, err)
	}
	if err := n.Kill(); err != nil {
		t.Fatal(err)
	}
	failed, ok := errors.AsType[*Error](receive(t, done))
	if !ok || *failed != (Error{"execve", 1, 0}) {
		t.Errorf("%v", failed)
	}
	n.Reap()
	_ = unix.Close(n.PIDFD)
	if err := unix.Kill(n.PID, 0); err != unix.ESRCH {
		t.Errorf("it is left: %v", err)
	}
	if after := descriptors(t); !slices.Equal(before, after) {
		t.Errorf("descriptors %v have become %v", before, after)
	}
}

func TestBirthsBesideTheGarbageCollector(t *testing.T) {
	births := 2000
	if testing.Short() {
		births = 200
	}
	program, _ := leasetest.Leased(t, "/bin/true")
	hanging, done := begin(t, "execve", Execve(program, []string{"true"}, nil))
	stop, collected := make(chan struct{}), make(chan int)
	go func() {
		for times := 0; ; times++ {
			select {
			case <-stop:
				collected <- times
				return
			default:
				runtime.GC()
			}
		}
	}()
	var all sync.WaitGroup
	const threads = 4
	for range threads {
		all.Go(func() {
			for range births / threads {
				garbage := make([]byte, 64<<10) // it would overwrite a launch block that is freed too early
				pid, pidfd, err := Start([]Step{Setsid(), Chdir("/"), Execve("/bin/true", []string{"true", string(garbage[:0])}, environment)})
				if err != nil {
					t.Error(err)
					return
				}
				if status := reap(t, pid, pidfd); status != 0 {
					t.Errorf("status %#x", status)
				}
				runtime.KeepAlive(garbage)
			}
		})
	}
	all.Wait()
	close(stop)
	if times := <-collected; times < 10 {
		t.Errorf("%d collections beside %d births", times, births)
	}
	_ = hanging.Kill()
	if err := receive(t, done); err == nil {
		t.Error("what hung has executed")
	}
	hanging.Reap()
	_ = unix.Close(hanging.PIDFD)
}
