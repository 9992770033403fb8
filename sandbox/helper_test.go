//go:build linux

package sandbox_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
	"github.com/execbus/execbus/sandbox/internal/refusetest"
	"github.com/execbus/execbus/tests/proc"
)

var full = flag.Bool("full", false, "run every cell of the table of spawn shapes 20 times instead of once")

// roleVariable gives this test binary another role than that of the tests.
const roleVariable = "EXECBUS_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		flag.Parse()
		name, value, _ := strings.Cut(hurry, "=")
		must(os.Setenv(name, value))          // for the wardens; this process has read it
		must(flag.Set("test.parallel", "12")) // parallel tests wait most of the time
		goleak.VerifyTestMain(m)
	case "host":
		beHost()
	case "reaper":
		beReaper()
	case "own-pty":
		beOnOwnPTY()
	case "first-thread-ends":
		endFirstThread()
	case "comet":
		fly()
	case "sibling":
		bearSibling()
	case "poor":
		bePoor()
	case "leaky":
		beLeaky()
	case "copied":
		beCopied()
	case "says":
		saySpawn()
	case "hanging":
		beHanging()
	case "changes":
		change()
	case "blocked":
		beBlocked()
	case "sudoer":
		beSudoer()
	case "sudo":
		beSudo()
	case "forger":
		forge()
	case "crowded":
		beCrowded()
	case "isolated":
		beIsolated()
	case "refused":
		beRefused()
	case "emulated":
		beEmulated()
	case "evader":
		evade()
	case "nested":
		nest()
	case "again":
		executeAgain()
	default:
		os.Exit(99)
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// beReaper starts a host in another role, says its pid, and then how each process ends that comes to it, until none is left.
func beReaper() {
	must(unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	host := exec.Command("/proc/self/exe")
	host.Env = append(os.Environ(), roleVariable+"="+os.Getenv("OF"))
	must(host.Start())
	fmt.Println(host.Process.Pid)
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			os.Exit(0)
		case status.Signaled():
			fmt.Println(pid, "was killed:", status.Signal())
		default:
			fmt.Println(pid, "exited")
		}
	}
}

// beHost spawns one shape and waits to be killed.
func beHost() {
	signal.Ignore(syscall.SIGHUP)
	signal.Reset()
	options := sandbox.Options{StateDir: os.Getenv("STATE")}
	if os.Getenv("PATIENT") != "" {
		options = sandbox.Impatient(options, time.Hour, patience, time.Hour)
	}
	spawner, err := sandbox.New(options)
	must(err)
	index, err := strconv.Atoi(os.Getenv("SHAPE"))
	must(err)
	l := shapes[index].launch(os.Getenv("TTY") == "pty", os.Getenv("TOKEN"))
	if script := os.Getenv("SCRIPT"); script != "" {
		l = bash(false, script)
	}
	l.Events = newRecorder().receive
	if program := os.Getenv("HANGING"); program != "" {
		hanging := launch(false, program)
		hanging.Events = newRecorder().receive
		go func() { _, err := spawner.Spawn(context.Background(), hanging); must(err) }()
	}
	_, err = spawner.Spawn(context.Background(), l)
	must(err)
	for {
		time.Sleep(time.Hour)
	}
}

// beOnOwnPTY runs a command on a terminal that it opens itself, as script, tmux and expect do.
func beOnOwnPTY() {
	command := exec.Command("sleep", os.Getenv("TOKEN"))
	_, err := pty.Start(command)
	must(err)
	_ = command.Wait()
}

// endFirstThread ends the first thread, which ps shows as the process. Other threads go on.
func endFirstThread() {
	begun := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		close(begun)
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(7)
	}()
	<-begun
	fmt.Println("first thread ends")
	runtime.LockOSThread() // TestMain runs on the main goroutine but not always on the first thread
	if unix.Gettid() != os.Getpid() {
		fmt.Println("not the first thread")
	}
	_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
}

func init() {
	if role := os.Getenv(roleVariable); role == "first-thread-ends" || role == "changes" {
		runtime.LockOSThread() // the main goroutine stays on the first thread
	}
}

// fly is a program that forks its successor into a session of its own and exits, again and again.
func fly() {
	left, err := strconv.Atoi(os.Getenv("GENERATIONS"))
	must(err)
	if left == 0 {
		return
	}
	_, err = syscall.ForkExec("/proc/self/exe", os.Args, &syscall.ProcAttr{
		Env: append(environment(roleVariable+"=comet", "TOKEN="+os.Getenv("TOKEN")), "GENERATIONS="+strconv.Itoa(left-1)),
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	must(err)
}

// bearSibling makes a child of our own parent, in a session of its own, and exits when the input ends.
func bearSibling() {
	sleep, err := exec.LookPath("sleep")
	must(err)
	_, err = syscall.ForkExec(sleep, []string{"sleep", os.Getenv("TOKEN")}, &syscall.ProcAttr{
		Env: environment(), Sys: &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_PARENT}})
	must(err)
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// bePoor spawns with as few descriptors as the limit allows, until it fails.
func bePoor() {
	direct := os.Getenv("SPAWNER") == "direct"
	spawner, err := sandbox.New(sandbox.Options{Direct: direct})
	must(err)
	record := newRecorder()
	l := launch(false, "true")
	l.Events = record.receive
	_, err = spawner.Spawn(context.Background(), l) // the warden starts
	must(err)
	few := unix.Rlimit{Cur: 40, Max: 40}
	must(unix.Prlimit(0, unix.RLIMIT_NOFILE, &few, nil))
	var kept []*recorder
	for i := range 100 {
		record := newRecorder()
		l := launch(i%2 == 0, "cat")
		l.Events = record.receive
		child, err := spawner.Spawn(context.Background(), l)
		if err != nil {
			fmt.Printf("failed: %v\n", err)
			break
		}
		defer child.Abandon()
		kept = append(kept, record)
	}
	before := len(proc.Descriptors(os.Getpid()))
	for i := range 20 {
		l := launch(i%2 == 0, "cat")
		l.Events = newRecorder().receive
		if child, err := spawner.Spawn(context.Background(), l); err == nil {
			child.Abandon()
		}
	}
	for _, record := range kept {
		if record.has(isExited) {
			fmt.Println("a child was lost")
		}
	}
	fmt.Println("leaked", max(0, len(proc.Descriptors(os.Getpid()))-before-8))
	must(spawner.Close())
	fmt.Println("closed")
}

// beLeaky opens descriptors that a child would inherit, and lists what its children have.
func beLeaky() {
	for _, fd := range []int{55, 77, 300} {
		source, err := os.Open("/dev/null")
		must(err)
		if int(source.Fd()) != fd {
			must(unix.Dup2(int(source.Fd()), fd))
		}
	}
	for _, direct := range []bool{false, true} {
		spawner, err := sandbox.New(sandbox.Options{Direct: direct})
		must(err)
		record := newRecorder()
		l := bash(false, "exec ls -1 /proc/self/fd")
		l.Events = record.receive
		_, err = spawner.Spawn(context.Background(), l)
		must(err)
		for !record.has(isTreeEnded) || !record.has(func(e ptyio.Event) bool { _, is := e.(ptyio.Closed); return is }) {
			time.Sleep(time.Millisecond)
		}
		must(spawner.Close())
		fmt.Printf("%q\n", record.output.String())
	}
}

// beCopied is a host that leaves a copy behind, with its sockets.
func beCopied() {
	spawner, err := sandbox.New(sandbox.Options{})
	must(err)
	l := shapes[5].launch(false, os.Getenv("TOKEN"))
	l.OnLeaderExit = messages.LeaderExitKeepsTree // its input ends with us
	l.Events = newRecorder().receive
	_, err = spawner.Spawn(context.Background(), l)
	must(err)
	readers, _ := strconv.Atoi(os.Getenv("READERS"))
	for range readers {
		l := launch(false, "cat", os.Getenv("FIFO"))
		l.OpenStdin, l.Merged, l.Events = false, true, newRecorder().receive
		_, err := spawner.Spawn(context.Background(), l)
		must(err)
	}
	holder := exec.Command("sleep", os.Getenv("HOLDER"))
	for _, fd := range proc.Descriptors(os.Getpid()) {
		number, target, _ := strings.Cut(fd, " ")
		if strings.HasPrefix(target, "socket:") {
			fd, err := strconv.Atoi(number)
			must(err)
			holder.ExtraFiles = append(holder.ExtraFiles, os.NewFile(uintptr(fd), target))
		}
	}
	must(holder.Start())
	fmt.Println("sockets", len(holder.ExtraFiles))
	for {
		time.Sleep(time.Hour)
	}
}

// saySpawn spawns a command and prints the result.
func saySpawn() {
	if os.Getenv("IGNORES") != "" {
		signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGTSTP, syscall.SIGTTIN,
			syscall.SIGTTOU, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGTERM, syscall.SIGWINCH)
	}
	switch os.Getenv("DENIED") {
	case "pidfds":
		deny(unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_SEND_SIGNAL)
	case "memfds":
		deny(unix.SYS_MEMFD_CREATE)
	case "files":
		must(unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{}))
	}
	if os.Getenv("DROPS") != "" {
		must(syscall.Setresuid(os.Getuid(), os.Getuid(), os.Getuid()))
	}
	exe, err := os.Readlink("/proc/self/exe")
	fmt.Println("executes", exe, err)
	spawner, err := sandbox.New(sandbox.Options{Direct: os.Getenv("SPAWNER") == "direct", Warden: os.Getenv("WARDEN"),
		Notice: func(text string) { fmt.Println("notice:", text) }})
	must(err)
	record := newRecorder()
	l := bash(false, cmp.Or(os.Getenv("SCRIPT"), "true"))
	if argv := os.Getenv("ARGV"); argv != "" {
		l.Argv = strings.Fields(argv)
	}
	l.Events = record.receive
	if os.Getenv("SANDBOX") != "" {
		l.Sandbox, err = spawner.Enclose(context.Background(), workspace("/tmp"))
		must(err)
	}
	_, err = spawner.Spawn(context.Background(), l)
	fmt.Println("error:", err)
	if err == nil {
		fmt.Printf("report: %+v\n", record.untilTheEnd())
		fmt.Printf("output: %q\n", record.output.String())
	}
	must(spawner.Close())
}

// executeAgain is a host that executes another host without ending its commands. Both spawn.
func executeAgain() {
	spawner, err := sandbox.New(sandbox.Options{})
	must(err)
	token := os.Getenv("SECOND")
	if first := os.Getenv("FIRST"); first != "" {
		token = first
	}
	l := launch(false, "sleep", token)
	l.Events = newRecorder().receive
	_, err = spawner.Spawn(context.Background(), l)
	must(err)
	if token == os.Getenv("FIRST") {
		must(os.Unsetenv("FIRST"))
		must(syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
	}
	for {
		time.Sleep(time.Hour)
	}
}

// untilTheEnd waits for the last event, in a process that is not a test.
func (r *recorder) untilTheEnd() messages.TreeReport {
	for !r.has(isTreeEnded) || !r.has(isClosed) {
		time.Sleep(time.Millisecond)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	ended, _ := find[ptyio.TreeEnded](r)
	return ended.TreeReport
}

// beSudoer spawns a command that becomes root and stays, and then two others.
func beSudoer() {
	spawner, err := sandbox.New(sandbox.Options{})
	must(err)
	for _, argv := range [][]string{{os.Getenv("SUDO"), os.Getenv("TOKEN")}, {"true"}, {"bash", "-c", "(setsid sleep 1000 &)"}} {
		record := newRecorder()
		l := launch(false, argv...)
		l.Env = environment(roleVariable + "=sudo")
		l.Events = record.receive
		_, err := spawner.Spawn(context.Background(), l)
		must(err)
		fmt.Printf("report: %+v\n", record.untilTheEnd())
	}
	os.Exit(0) // Close would wait for a process that cannot be ended
}

// beSudo is a set-uid program that becomes root and leaves a daemon.
func beSudo() {
	if os.Getenv("DAEMON") == "" {
		must(syscall.Setresuid(0, 0, 0))
		_, err := syscall.ForkExec("/proc/self/exe", os.Args, &syscall.ProcAttr{
			Env: append(os.Environ(), "DAEMON=1"), Sys: &syscall.SysProcAttr{Setsid: true}})
		must(err)
		time.Sleep(100 * time.Millisecond)
		return
	}
	time.Sleep(time.Hour)
}

// beBlocked is a host that was started with blocked signals, and may have a kernel that refuses our kind of clone.
func beBlocked() {
	if os.Getenv("BLOCKED") == "" {
		runtime.LockOSThread()
		var all unix.Sigset_t
		all.Val[0] = 1<<(unix.SIGUSR1-1) | 1<<(unix.SIGTERM-1)
		must(unix.PthreadSigmask(unix.SIG_BLOCK, &all, nil))
		must(syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), "BLOCKED=1")))
	}
	if os.Getenv("REFUSED") != "" && refusetest.Clone(refusetest.EveryThread) != nil {
		os.Exit(98)
	}
	saySpawn()
}

// beHanging is a host with a command, and a fork that hangs.
func beHanging() {
	spawner, err := sandbox.New(sandbox.Options{})
	must(err)
	up, hangs := launch(false, "sleep", os.Getenv("TOKEN")), launch(false, os.Getenv("HANGING"))
	up.Events, hangs.Events = newRecorder().receive, newRecorder().receive
	_, err = spawner.Spawn(context.Background(), up)
	must(err)
	for { // it is given up after some seconds
		_, _ = spawner.Spawn(context.Background(), hangs)
	}
}
