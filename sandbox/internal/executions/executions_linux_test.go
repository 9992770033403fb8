package executions

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
)

// TestMain executes something from memory that nobody brings, or from a file system that does not answer, if it is told to.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "absent" {
		absent()
	} else if len(os.Args) > 2 && os.Args[1] == "dead" {
		dead(os.Args[2])
	}
	os.Exit(m.Run())
}

// absent executes a path in a page that waits for userfaultfd, in some threads, and then a path that is there.
func absent() {
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if errno != 0 {
		os.Exit(77)
	}
	api := struct{ api, features, ioctls uint64 }{api: 0xaa}
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	at := uintptr(unsafe.Pointer(unsafe.SliceData(page)))
	region := struct{ start, length, mode, ioctls uint64 }{start: uint64(at), length: uint64(len(page)), mode: 1}
	_, _, failed := unix.Syscall(unix.SYS_IOCTL, fd, 0xc018aa3f, uintptr(unsafe.Pointer(&api)))
	_, _, refused := unix.Syscall(unix.SYS_IOCTL, fd, 0xc020aa00, uintptr(unsafe.Pointer(&region)))
	if err != nil || failed != 0 || refused != 0 {
		os.Exit(77)
	}
	var all sync.WaitGroup
	for range maxHung + 1 {
		all.Go(func() {
			runtime.LockOSThread()
			if _, _, errno := unix.Syscall(unix.SYS_EXECVE, at, 0, 0); errno != unix.EACCES {
				os.Exit(1)
			}
		})
	}
	all.Wait()
	if err := syscall.Exec("/bin/true", nil, nil); err != unix.EACCES { // nothing is read any more
		os.Exit(2)
	}
	os.Exit(0)
}

// dead executes a program in a file system of FUSE, whose server answers nothing but the greeting, and then one that is there. The file system
// is in a mount namespace of this thread, and ends with this program.
func dead(dir string) {
	runtime.LockOSThread()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil || unix.Unshare(unix.CLONE_NEWNS) != nil || unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, "") != nil {
		os.Exit(77)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d", fd, os.Geteuid(), os.Getegid())
	if unix.Mount("dead", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options) != nil {
		os.Exit(77)
	}
	greeted := make(chan struct{})
	go func() {
		request := make([]byte, 1<<16)
		if n, err := unix.Read(fd, request); err != nil || n < 16 || binary.NativeEndian.Uint32(request[4:]) != 26 { // FUSE_INIT
			os.Exit(3)
		}
		answer := make([]byte, 16+64) // a fuse_out_header and a fuse_init_out
		binary.NativeEndian.PutUint32(answer, uint32(len(answer)))
		copy(answer[8:16], request[8:16]) // of which request
		binary.NativeEndian.PutUint32(answer[16:], 7)
		binary.NativeEndian.PutUint32(answer[20:], 23)
		binary.NativeEndian.PutUint32(answer[36:], 1<<16) // bytes a write
		if _, err := unix.Write(fd, answer); err != nil {
			os.Exit(4)
		}
		close(greeted)
	}()
	<-greeted
	if err := syscall.Exec(dir+"/program", []string{"program"}, nil); err != unix.EACCES {
		os.Exit(1)
	}
	_ = syscall.Exec("/bin/true", []string{"true"}, nil)
	os.Exit(2)
}

// watched starts a program whose executions are watched. It returns how the program exits.
func watched(t *testing.T, wanted Wanted, waits waits, to func(*Watch) To, argv ...string) (w *Watch, exit func() int) {
	t.Helper()
	filter, err := NewFilter()
	if err != nil {
		t.Fatal(err)
	}
	path := argv[0]
	steps := slices.Concat(filter.Steps, birth.FewFiles([]int{-1, 2, 2}), []birth.Step{birth.Execve(path, argv, []string{"PATH=/usr/bin:/bin"}).Showing(filter.Secret)})
	child, err := birth.Begin(steps)
	if err == nil {
		err = child.Wait()
	}
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		t.Skipf("skipped: no listener here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	listener := filter.Listener(child)
	child.Release()
	w = newWatch(listener, wanted, To{}, waits)
	w.to = to(w)
	go w.serve()
	return w, func() int {
		var status unix.WaitStatus
		for {
			if _, err := unix.Wait4(child.PID, &status, 0, nil); err != unix.EINTR {
				break
			}
		}
		_ = unix.Close(child.PIDFD)
		w.Close()
		return status.ExitStatus()
	}
}

func TestAnExecutionWaitsForItsJudgeUntilItIsLateUnlessItIsHeld(t *testing.T) {
	short := waits{read: time.Minute, judge: 50 * time.Millisecond, look: 10 * time.Millisecond}
	run := func(held bool) (code int, settled chan Fate) {
		settled = make(chan Fate, 2)
		_, exit := watched(t, Wanted{Names: []string{"true"}, Judge: true}, short, func(w *Watch) To {
			return To{
				Ask: func(number uint64, e Execution) {
					if e.Program != "/bin/true" || e.Unread != "" {
						t.Errorf("%+v", e)
					}
					if held {
						w.Answer(number, Later)
						time.AfterFunc(5*short.judge, func() { w.Answer(number, Allow) })
					}
				},
				Settled: func(number uint64, fate Fate) {
					settled <- fate
					w.Answer(number, Allow) // it means nothing any more
				},
			}
		}, "/bin/sh", "-c", "/bin/true")
		return exit(), settled
	}
	if code, settled := run(false); code != 126 || len(settled) != 1 || <-settled != Late {
		t.Errorf("exit code %d, settled %d times", code, len(settled))
	}
	for tries := 1; ; tries++ {
		code, settled := run(true)
		if n := len(settled); n != 1 {
			t.Fatalf("held: exit code %d, settled %d times", code, n)
		}
		fate := <-settled
		if fate == Passed && code == 0 {
			return
		}
		if fate != Late || tries == 20 { // on a busy machine the judge may be late with its word that it will answer later
			t.Fatalf("held: exit code %d, settled as %v in try %d", code, fate, tries)
		}
	}
}

func TestAnAnswerAfterTheDeathOfTheCallerSaysSo(t *testing.T) {
	settled, dead := make(chan Fate, 3), false
	_, exit := watched(t, Wanted{Names: []string{"true"}, Judge: true}, defaultWaits, func(w *Watch) To {
		return To{Settled: func(_ uint64, fate Fate) { settled <- fate }, Ask: func(number uint64, e Execution) {
			for !dead && w.valid(number) {
				_ = unix.Kill(e.PID, unix.SIGKILL)
				runtime.Gosched()
			}
			dead = true
			w.Answer(number, Allow)
		}}
	}, "/bin/sh", "-c", "/bin/true; /bin/true; exit 7") // the second one waits until the first was answered
	if code := exit(); code != 7 || len(settled) != 2 || <-settled != Gone || <-settled != Passed {
		t.Errorf("exit code %d, settled %d times", code, len(settled))
	}
}

// What became of an execution is said before the end of the tree.
func TestTheEndOfTheWatchWaitsUntilEverythingIsSaid(t *testing.T) {
	waits, early := regexp.MustCompile(`Cond\)\.Wait\(.*\n.*\n.*Watch\)\.Close\(`), make(chan bool, 1)
	_, exit := watched(t, Wanted{Names: []string{"true"}, Judge: true}, defaultWaits, func(w *Watch) To {
		return To{Ask: func(number uint64, _ Execution) { w.Answer(number, Allow) }, Settled: func(uint64, Fate) {
			closed := make(chan bool)
			go func() { w.Close(); close(closed) }()
			for stacks := make([]byte, 1<<20); !waits.Match(stacks[:runtime.Stack(stacks, true)]); runtime.Gosched() {
				select {
				case <-closed:
					early <- true
					return
				default:
				}
			}
			early <- false
		}}
	}, "/bin/sh", "-c", "/bin/true; exit 7")
	if code := exit(); code != 7 || <-early {
		t.Errorf("exit code %d, or it is closed early", code)
	}
}

func TestWhatIsAllowedAlikeIsBounded(t *testing.T) {
	asked := 0
	_, exit := watched(t, Wanted{Names: []string{"true"}, Judge: true}, defaultWaits, func(w *Watch) To {
		return To{Settled: func(uint64, Fate) {}, Ask: func(number uint64, e Execution) {
			asked++
			w.Answer(number, AllowAlike)
			w.mu.Lock()
			defer w.mu.Unlock()
			for key := range w.known {
				if len(w.known) > maxKnown || len(key) > maxKnownBytes {
					t.Errorf("%d executions are known, among them %q", len(w.known), key)
				}
			}
		}}
	}, "/bin/sh", "-c", fmt.Sprintf(`a() { i=0; while [ $i -lt $1 ]; do i=$((i+1)); /bin/true $i$2 || exit; done; }; a 2; a 2; a 2 %0*d; a 2 %0*d; a %d; /bin/true 1`,
		maxKnownBytes, 0, maxKnownBytes, 0, maxKnown+1))
	// Two short ones, four long ones, those that are new of many, after the first of which all are forgotten, and the first once more.
	if code := exit(); code != 0 || asked != 2+4+maxKnown-1+1 {
		t.Errorf("exit code %d, and %d were asked about", code, asked)
	}
}

func TestAfterTheEndOfTheWatchExecutionsFail(t *testing.T) {
	w, exit := watched(t, Wanted{}, defaultWaits, func(*Watch) To { return To{} }, "/bin/sh", "-c", "while /bin/true; do :; done; exit 7")
	w.Close()
	if code := exit(); code != 7 {
		t.Errorf("exit code %d", code)
	}
}

func TestMemoryThatNobodyBringsStopsItsTreeOnly(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var unread []string
	short := waits{read: 50 * time.Millisecond, judge: time.Minute, look: 10 * time.Millisecond}
	_, exit := watched(t, Wanted{Names: []string{"git"}, Judge: true}, short, func(w *Watch) To {
		return To{Settled: func(uint64, Fate) {}, Ask: func(number uint64, e Execution) {
			mu.Lock()
			unread = append(unread, e.Unread)
			mu.Unlock()
			w.Answer(number, Refuse)
		}}
	}, self, "absent")
	switch code := exit(); {
	case code == 77:
		t.Skip("skipped: no userfaultfd here")
	case code != 0:
		t.Errorf("exit code %d", code)
	}
	if len(unread) != maxHung+2 || slices.ContainsFunc(unread, func(why string) bool { return why == "" }) {
		t.Errorf("%q", unread)
	}
}

func TestAFileSystemThatDoesNotAnswerStopsItsTreeOnly(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	short := waits{read: 50 * time.Millisecond, judge: time.Minute, look: 10 * time.Millisecond}
	type question struct {
		number uint64
		unread string
	}
	asked, ended := make(chan question, 1), make(chan int, 1)
	var first sync.Once
	w, exit := watched(t, Wanted{Names: []string{"git"}, Judge: true}, short, func(w *Watch) To {
		return To{Settled: func(uint64, Fate) {}, Ask: func(number uint64, e Execution) {
			is := false
			first.Do(func() { is = true })
			if is {
				asked <- question{number, e.Unread}
			} else { // on a slow machine
				w.Answer(number, Allow)
			}
		}}
	}, self, "dead", t.TempDir())
	go func() { ended <- exit() }()
	select {
	case code := <-ended:
		if code == 77 {
			t.Skip("skipped: no FUSE here, or not for this user")
		}
		t.Fatalf("exit code %d", code)
	case q := <-asked: // a thread of ours hangs now
		if q.unread != "it could not be read within a second" {
			t.Errorf("unread: %q", q.unread)
		}
		_, other := watched(t, Wanted{Names: []string{"git"}, Judge: true}, defaultWaits, func(w *Watch) To {
			return To{Settled: func(uint64, Fate) {}, Ask: func(number uint64, _ Execution) { w.Answer(number, Allow) }}
		}, "/bin/sh", "-c", "/bin/true && /bin/true")
		if code := other(); code != 0 {
			t.Errorf("another tree: exit code %d", code)
		}
		w.Answer(q.number, Refuse)
	}
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestThePathOfAProgramIsFollowedAsTheKernelDoes(t *testing.T) {
	dir := t.TempDir()
	for link, to := range map[string]string{"a": "/usr/bin", "b": "a/../bin", "self": "/proc/self/exe", "loop": "loop", "up": "../../../../../../../../usr"} {
		if err := os.Symlink(to, dir+"/"+link); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(dir + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c := &caller{proc: "/proc/self"}
	name := func(path string) string { return strings.ReplaceAll(path, "DIR", dir) }
	for _, test := range []struct {
		path, leads string
		err         error
	}{
		{"DIR/a/env", "/usr/bin/env", nil}, {"DIR/./b//env", "/usr/bin/env", nil}, {"DIR/up/bin/env", "/usr/bin/env", nil},
		{"/proc/self/exe", self, nil}, {"DIR/self", self, nil}, {"/proc/thread-self/exe", self, nil}, {"/../../usr/bin/env", "/usr/bin/env", nil},
		{"/dev/fd/" + strconv.Itoa(int(file.Fd())), "DIR/file", nil}, {"DIR/loop", "", unix.ELOOP}, {"DIR/none", "", unix.ENOENT}, {"DIR/file/x", "", unix.ENOTDIR},
		{"/proc/self/root/usr/bin/env", "/usr/bin/env", nil}, {"/", "/", nil}, {strings.Repeat("/.", maxNames+1), "", errLong},
	} {
		if got, err := c.resolve(unix.AT_FDCWD, name(test.path)); got != name(test.leads) || err != test.err {
			t.Errorf("%.60s leads to %q, %v", test.path, got, err)
		}
	}
	for _, base := range []int{unix.AT_FDCWD, int(file.Fd())} {
		got, err := c.resolve(base, "x")
		if base == unix.AT_FDCWD && err != unix.ENOENT || base != unix.AT_FDCWD && err != unix.ENOTDIR {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// listeners counts those of this process.
func listeners(t *testing.T) (count int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if target, _ := os.Readlink("/proc/self/fd/" + entry.Name()); target == "anon_inode:seccomp notify" {
			count++
		}
	}
	return count
}

func TestOnlyAListenerThatNobodyKnowsOfTheDeadIsLost(t *testing.T) {
	before := listeners(t)
	filter, err := NewFilter()
	if err != nil {
		t.Fatal(err)
	}
	steps := slices.Concat(filter.Steps, birth.FewFiles(nil), []birth.Step{birth.Execve("/bin/sleep", []string{"sleep", "1000"}, nil).Showing(filter.Secret)})
	child, err := birth.Begin(steps)
	if err == nil {
		err = child.Wait()
	}
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		t.Skipf("skipped: no listener here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	is := func(state string, want int) {
		t.Helper()
		if now := listeners(t) - before; now != want {
			t.Errorf("%s: there are %d", state, now)
		}
	}
	CloseLost(func() {})
	is("of a program that runs", 1)
	_ = child.Kill()
	for ready := []unix.PollFd{{Fd: int32(child.PIDFD), Events: unix.POLLIN}}; ready[0].Revents == 0; {
		_, _ = unix.Poll(ready, -1)
	}
	CloseLost(func() { filter.Listener(child) })
	is("of a birth that is under way", 1)
	CloseLost(func() {})
	is("that is known", 1)
	_ = unix.SetNonblock(filter.Listener(child), false) // as if the child had said nothing
	CloseLost(func() {})
	is("that is lost", 0)
	child.Reap()
	child.Release()
	_ = unix.Close(child.PIDFD)
}
