package sandbox_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// touch is the program that nobody may execute here. Each way to try makes a file of another name.
const touch = "/usr/bin/touch"

// evade tries to execute touch in each way, and says how it failed. Ways that change this process come last.
func evade() {
	for _, way := range ways {
		err := way.try(way.name)
		fmt.Printf("%s: %v\n", way.name, err)
	}
}

var ways = []struct {
	name string
	try  func(file string) error
}{
	{"path", func(file string) error { return execute(unix.AT_FDCWD, touch, 0, "touch", file) }},
	{"link", func(file string) error {
		return errors.Join(os.Symlink(touch, "a"), os.Symlink("a", "b"), execute(unix.AT_FDCWD, "../"+base()+"/b", 0, "b", file))
	}},
	{"descriptor", func(file string) error { return execute(open(touch), "", unix.AT_EMPTY_PATH, "x", file) }},
	{"directory", func(file string) error { return execute(open("/usr/bin"), "touch", 0, "x", file) }},
	{"proc", func(file string) error {
		return execute(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", open(touch)), 0, "x", file)
	}},
	{"thread", func(file string) error {
		failed := make(chan error)
		go func() {
			runtime.LockOSThread()
			failed <- execute(unix.AT_FDCWD, touch, 0, "x", file)
		}()
		return <-failed
	}},
	{"vfork", func(file string) error { return exec.Command(touch, file).Run() }},
	{"memory", func(file string) error {
		fd, err := unix.MemfdCreate("copy", 0)
		program, failed := os.ReadFile(touch)
		_, wrote := unix.Write(fd, program)
		return errors.Join(err, failed, wrote, execute(fd, "", unix.AT_EMPTY_PATH, "touch", file))
	}},
	{"secret", func(file string) error { return executeRaw(touch, []string{"x", file}, 1, 1) }},
	{"many names", func(file string) error {
		return execute(unix.AT_FDCWD, "/usr/bin/"+strings.Repeat("./", 600)+"touch", 0, "x", file)
	}},
	{"many arguments", func(file string) error {
		return execute(unix.AT_FDCWD, touch, 0, append([]string{"x", file}, slices.Repeat([]string{"-c"}, 40_000)...)...)
	}},
	{"long arguments", func(file string) error {
		return execute(unix.AT_FDCWD, touch, 0, append([]string{"x", file}, slices.Repeat([]string{strings.Repeat("a", 100<<10)}, 3)...)...)
	}},
	{"moved", func(file string) error {
		return errors.Join(os.Mkdir("gone", 0o700), os.Symlink(touch, "c"), os.Chdir("gone"), os.Remove("../gone"),
			execute(unix.AT_FDCWD, "../c", 0, "x", file), os.Chdir(os.Getenv("DIR")))
	}},
	{"listener", func(string) error { // it would see executions instead of the host
		return install(unix.SECCOMP_RET_USER_NOTIF, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
	}},
	{"filter", func(file string) error {
		return errors.Join(install(unix.SECCOMP_RET_TRACE, 0), execute(unix.AT_FDCWD, touch, 0, "x", file))
	}},
	{"undumpable", func(file string) error {
		return errors.Join(unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0), execute(unix.AT_FDCWD, touch, 0, "x", file))
	}},
}

func base() string { return os.Getenv("DIR")[strings.LastIndex(os.Getenv("DIR"), "/")+1:] }

func open(path string) int {
	fd, err := unix.Open(path, unix.O_PATH, 0)
	must(err)
	return fd
}

// execute is execveat without the precautions of Go.
func execute(fd int, path string, flags int, argv ...string) error {
	program, err := unix.BytePtrFromString(path)
	must(err)
	arguments, err := syscall.SlicePtrFromStrings(argv)
	must(err)
	_, _, errno := unix.Syscall6(unix.SYS_EXECVEAT, uintptr(fd), uintptr(unsafe.Pointer(program)), uintptr(unsafe.Pointer(&arguments[0])), 0, uintptr(flags), 0)
	return errno
}

// executeRaw is execve with a fifth and a sixth argument.
func executeRaw(path string, argv []string, fifth, sixth uintptr) error {
	program, err := unix.BytePtrFromString(path)
	must(err)
	arguments, err := syscall.SlicePtrFromStrings(argv)
	must(err)
	_, _, errno := unix.Syscall6(unix.SYS_EXECVE, uintptr(unsafe.Pointer(program)), uintptr(unsafe.Pointer(&arguments[0])), 0, 0, fifth, sixth)
	return errno
}

// install sets a filter that has this answer to everything that executes.
func install(answer uint32, flags uintptr) error {
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, {Code: unix.BPF_JMP | unix.BPF_JEQ, K: unix.SYS_EXECVEAT, Jf: 1},
		{Code: unix.BPF_RET, K: answer}, {Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW}}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}

func TestNoWayOfExecutingEvadesTheJudge(t *testing.T) {
	if info, err := os.Lstat(touch); err != nil || !info.Mode().IsRegular() {
		t.Skip("skipped: there is no such program here")
	}
	executed(t, func(t *testing.T, spawner ptyio.Spawner, l ptyio.Launch, dir string) {
		j := &judge{}
		h := helper(t, false, "evader", "DIR="+dir)
		h.Dir, h.Sandbox, h.Executions, h.Merged = dir, l.Sandbox, l.Executions, true
		h.Executions.Names, h.Executions.Judge = []string{"touch"}, j.judge
		_, r := run(t, spawner, h)
		r.awaitEnd(t)
		for _, way := range ways {
			want := "permission denied"
			if way.name == "listener" {
				want = "device or resource busy"
			}
			if !strings.Contains(r.output.String(), way.name+": "+want+"\n") && !strings.Contains(r.output.String(), way.name+": fork/exec "+touch+": "+want) {
				t.Errorf("%s was not refused: %s", way.name, r.output.String())
			}
			if _, err := os.Lstat(dir + "/" + way.name); err == nil {
				t.Errorf("%s: it was executed", way.name)
			}
		}
		if asked := len(ways) - 1; len(j.asked) != asked { // all but the listener
			t.Errorf("%d were asked about, want %d: %+v", len(j.asked), asked, j.asked)
		}
	})
}

// nest says whether a host inside of another one's tree would see executions.
func nest() {
	spawner, err := sandbox.New(sandbox.Options{})
	must(err)
	l := launch(false, "true")
	l.Executions = &ptyio.Executions{Unconfined: true}
	enforced, err := spawner.Can(l)
	must(err)
	fmt.Println(enforced.Executions, enforced)
}

func TestWhoCannotSeeExecutionsSaysSo(t *testing.T) {
	missing := func(e messages.Enforcement) string {
		for _, m := range e.Missing {
			if m.What == messages.MissingExecutions {
				return m.Why
			}
		}
		return ""
	}
	for _, test := range []struct {
		direct, unconfined bool
		why                string
	}{{true, true, "it needs a warden"}, {false, false, "nothing confines the command"}} {
		spawner := newSpawner(t, sandbox.Options{Direct: test.direct})
		l := bash(false, "/bin/true")
		asked := &judge{}
		l.Executions = &ptyio.Executions{All: true, Judge: asked.judge, Unconfined: test.unconfined}
		if e, err := spawner.Can(l); err != nil || e.Executions || !strings.Contains(missing(e), test.why) {
			t.Errorf("%v, %v", e, err)
		}
		_, r := run(t, spawner, l)
		r.awaitEnd(t)
		if spawned := awaitEvent[ptyio.Spawned](t, r); spawned.Enforced == nil || spawned.Enforced.Executions || len(asked.asked) > 0 {
			t.Errorf("%+v, asked %v", spawned, asked.asked)
		}
		if status := awaitEvent[ptyio.Exited](t, r).Status; status != messages.StatusExited(0) {
			t.Errorf("status %v", status)
		}
	}
	spawner := newSpawner(t, sandbox.Options{})
	l := helper(t, false, "nested")
	l.Executions, l.Merged = &ptyio.Executions{Unconfined: true, Seen: func([]ptyio.Execution, int) {}}, true
	if e, _ := spawner.Can(l); !e.Executions {
		t.Skipf("skipped: %v", e)
	}
	_, r := run(t, spawner, l)
	r.awaitEnd(t)
	if got := r.output.String(); !strings.HasPrefix(got, "false") || !strings.Contains(got, "watched in the same way itself") {
		t.Error(got)
	}
}
