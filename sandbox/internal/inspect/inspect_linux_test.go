package inspect

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/procs"
)

// cat starts a program that reads a pipe, which is closed when the test ends.
func cat(t *testing.T) (pid int, file ptyio.InputFile) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	command := exec.Command("cat")
	command.Stdin = read
	if err := command.Start(); err != nil {
		t.Skip("skipped: ", err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = write.Close()
		_ = command.Wait()
	})
	var stat unix.Stat_t
	if err := unix.Fstat(int(read.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	return command.Process.Pid, ptyio.InputFile{FileSystem: uint64(stat.Dev), Inode: stat.Ino}
}

// watcher starts this program again, as one that polls its input, on a terminal of its own or a pipe.
func watcher(t *testing.T, how string, tty bool) (pid int, file ptyio.InputFile) {
	t.Helper()
	var ours, theirs *os.File
	var err error
	if tty {
		ours, theirs, err = pty.Open()
	} else {
		theirs, ours, err = os.Pipe()
	}
	if err != nil {
		t.Skip("skipped: ", err)
	}
	defer theirs.Close()
	out, said, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	defer said.Close()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), helper+"="+how)
	command.Stdin, command.Stdout = theirs, said
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: tty}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = ours.Close()
		_ = command.Wait()
	})
	_ = said.Close()
	if n, err := out.Read(make([]byte, 1)); n != 1 && how == "faults" {
		t.Skip("skipped: no program may wait for its own memory here: ", err)
	} else if n != 1 {
		t.Fatal(err)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(theirs.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	file = ptyio.InputFile{FileSystem: uint64(stat.Dev), Inode: stat.Ino}
	if tty {
		file.Device = uint64(stat.Rdev)
	}
	return command.Process.Pid, file
}

const helper = "EXECBUS_TEST_WATCHER"

func TestMain(m *testing.M) {
	how, is := os.LookupEnv(helper)
	if !is {
		os.Exit(m.Run())
	}
	switch how {
	case "network":
		beInANetwork()
	case "undumpable":
		_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	case "faults":
		pollFaultily()
	}
	_, _ = os.Stdout.Write([]byte("x"))
	for {
		_, _ = unix.Poll([]unix.PollFd{{Fd: 0, Events: unix.POLLIN}}, -1)
	}
}

// pollFaultily polls the input with a list in memory that has no pages, and gets none from the program that is responsible for them: this
// one. It ends the program where that is not allowed.
func pollFaultily() {
	list, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		os.Exit(1)
	}
	polled := (*unix.PollFd)(unsafe.Pointer(&list[0]))
	polled.Events = unix.POLLIN
	go func() { _, _ = unix.Poll(unsafe.Slice(polled, 1), -1) }()
	for !polls() {
		time.Sleep(time.Millisecond)
	}
	const api, register, missing = 0xc018aa3f, 0xc020aa00, 1 // UFFDIO_API, UFFDIO_REGISTER and its mode
	fd, _, failed := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if failed != 0 {
		os.Exit(1)
	}
	version := [3]uint64{0xaa}
	area := [4]uint64{uint64(uintptr(unsafe.Pointer(&list[0]))), uint64(len(list)), missing}
	if _, _, failed = unix.Syscall(unix.SYS_IOCTL, fd, api, uintptr(unsafe.Pointer(&version))); failed != 0 {
		os.Exit(1)
	}
	if _, _, failed = unix.Syscall(unix.SYS_IOCTL, fd, register, uintptr(unsafe.Pointer(&area))); failed != 0 {
		os.Exit(1)
	}
	if unix.Madvise(list, unix.MADV_DONTNEED) != nil {
		os.Exit(1)
	}
	_, _ = os.Stdout.Write([]byte("x"))
	select {}
}

// polls reports whether a thread of this process sleeps in a poll without end, which nothing in the runtime does.
func polls() bool {
	for _, thread := range procs.Threads(os.Getpid()) {
		call, err := readCall("/proc/self/task/" + thread + "/syscall")
		if err == nil && kinds[call.number] == polling {
			return true
		}
	}
	return false
}

// A member may have memory that waits for another program, for as long as that likes: a look is given up, and no other joins it.
func TestALookAtMemoryThatWaitsForAProgramIsGivenUp(t *testing.T) {
	if !supported() {
		t.Skip("skipped: the system does not show in which call a thread sleeps")
	}
	usual, real := patience, readMemory
	defer func() { patience, readMemory = usual, real }()
	reads := make(chan struct{}, 100)
	gate := make(chan struct{})
	for name, c := range map[string]struct {
		how    string
		memory func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error)
	}{
		"a page of userfaultfd": {"faults", real},
		"a read that hangs": {"", func(pid int, local []unix.Iovec, remote []unix.RemoteIovec, flags uint) (int, error) {
			<-gate
			return real(pid, local, remote, flags)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			pid, file := watcher(t, c.how, false)
			readMemory = func(pid int, local []unix.Iovec, remote []unix.RemoteIovec, flags uint) (int, error) {
				reads <- struct{}{}
				return c.memory(pid, local, remote, flags)
			}
			r := Readers{Tree: Tree{Leader: pid}}
			patience = time.Millisecond
			eventually(t, func() bool { // on a busy machine a look may be late before it reads
				_, err := r.Look(file)
				return err == errLate && len(reads) > 0
			})
			for range 10 {
				if _, err := r.Look(file); err != errLate {
					t.Error(err)
				}
			}
			if n := len(reads); n != 1 {
				t.Errorf("%d looks hang", n)
			}
			patience = usual
			if c.how == "" {
				close(gate)
			} else if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			eventually(t, func() bool {
				found, err := r.Look(file)
				return err == nil && (found != nil) == (c.how == "")
			})
			for len(reads) > 0 {
				<-reads
			}
		})
	}
}

// A member that the system does not show is a guess on a terminal. On a pipe nothing tells, and the caller learns that.
func TestWhatTheSystemDoesNotShowIsAGuessOrAnError(t *testing.T) {
	if !supported() {
		t.Skip("skipped: the system does not show in which call a thread sleeps")
	}
	real := readMemory
	defer func() { readMemory = real }()
	refuses := func(err error) func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error) {
		return func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error) { return -1, err }
	}
	for _, c := range []struct {
		name, how string
		memory    func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error)
		shown     bool
	}{
		{"shown", "", real, true},
		{"memory that may not be read", "", refuses(unix.EPERM), false},
		{"no call for it", "", refuses(unix.ENOSYS), false},
		{"a program that nobody may trace", "undumpable", real, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.how != "" && os.Geteuid() == 0 {
				t.Skip("skipped: root may trace it")
			}
			readMemory = c.memory
			pid, terminal := watcher(t, c.how, true)
			other, pipe := watcher(t, c.how, false)
			look, lookElse := Readers{Tree: Tree{Leader: pid}}, Readers{Tree: Tree{Leader: other}}
			eventually(t, func() bool {
				found, err := look.Look(terminal)
				return err == nil && found != nil && found.Hidden == !c.shown && found.PID == pid && found.Still()
			})
			eventually(t, func() bool {
				found, err := lookElse.Look(pipe)
				if c.shown {
					return err == nil && found != nil && !found.Hidden
				}
				return err == errHidden && found == nil
			})
		})
	}
}

// Under hidepid, a process of another user seems not to exist.
func TestAProcessThatIsHiddenIsNotTakenForGone(t *testing.T) {
	m := member{Process: procs.Unseen(os.Getpid(), unix.ENOENT)}
	if found, asleep := m.reader(); found != nil || asleep != nil || m.hidden != errHidden {
		t.Errorf("%+v, %v", found, m.hidden)
	}
	m = member{Process: procs.Unseen(os.Getpid(), unix.EMFILE)}
	if found, asleep := m.reader(); found != nil || asleep != nil || m.hidden != unix.EMFILE {
		t.Errorf("%+v, %v", found, m.hidden)
	}
}

// eventually calls do until it returns true.
func eventually(t *testing.T, do func() bool) {
	t.Helper()
	for late := time.Now().Add(time.Minute); !do(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("it does not happen")
		}
	}
}

func TestAReaderThatIsStoppedDoesNotWait(t *testing.T) {
	if !supported() {
		t.Skip("skipped: the system does not show in which call a thread sleeps")
	}
	pid, file := cat(t)
	var reader *ptyio.Reader
	r := Readers{Tree: Tree{Leader: pid}}
	eventually(t, func() bool {
		found, err := r.Look(file)
		if err != nil {
			t.Skip("skipped: ", err)
		}
		reader = found
		return found != nil && !found.Hidden
	})
	if !reader.Still() {
		t.Error("it does not sleep any more")
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		p, err := procs.Read(pid)
		return err == nil && p.Stopped()
	})
	if reader.Still() {
		t.Error("one that is stopped is said to wait")
	}
}

// A daemon may have begun to listen before it is known to be of the tree.
func TestAMemberThatIsFoundLateListens(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip("skipped: ", err)
	}
	defer listener.Close()
	pid, _ := cat(t)
	looks := 0
	l := Listeners{Tree: Tree{Leader: pid, Parent: os.Getpid(), Orphans: func() []int {
		if looks < 20 {
			return nil
		}
		return []int{os.Getpid()}
	}}}
	eventually(t, func() bool {
		looks++
		found, err := l.Look()
		if err != nil {
			t.Skip("skipped: ", err)
		}
		for _, f := range found {
			if f.Address.String() == listener.Addr().String() && f.PID == os.Getpid() {
				if looks < 20 {
					t.Error("it was found where it was not looked for")
				}
				return true
			}
		}
		return false
	})
}

// pipe makes a pipe that nobody reads.
func pipe(t *testing.T) ptyio.InputFile {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = read.Close(); _ = write.Close() })
	var stat unix.Stat_t
	if err := unix.Fstat(int(read.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	return ptyio.InputFile{FileSystem: uint64(stat.Dev), Inode: stat.Ino}
}

func TestWhoSleepsIsLookedAtAgainWhenItHasRun(t *testing.T) {
	if !supported() {
		t.Skip("skipped: the system does not show in which call a thread sleeps")
	}
	if _, err := ranFor(os.Getppid()); err != nil {
		t.Skip("skipped: the system does not tell for how long another process has run: ", err)
	}
	pid, file := cat(t)
	other := pipe(t)
	r := Readers{Tree: Tree{Leader: pid}}
	remembers := func() bool {
		if reader, err := r.Look(other); err != nil || reader != nil {
			t.Fatal(reader, err)
		}
		return r.unchanged()
	}
	eventually(t, remembers)
	if reader, err := r.Look(file); err != nil || reader == nil {
		t.Errorf("%v, %v: it reads another file", reader, err)
	}
	eventually(t, remembers)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return !r.unchanged() })
	for range 5 {
		if remembers() {
			t.Error("one that is stopped is remembered as one that sleeps: it would not be seen to go on")
		}
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, remembers)
	child := exec.Command("true")
	if err := child.Run(); err != nil {
		t.Skip("skipped: ", err)
	}
	if !r.unchanged() {
		t.Error("what another process does counts")
	}
}

// A tree with an orphan that is found late is looked at again, though none of those that are known has run.
func TestAnOrphanThatIsFoundLateReads(t *testing.T) {
	if !supported() {
		t.Skip("skipped: the system does not show in which call a thread sleeps")
	}
	pid, _ := cat(t)
	orphan, file := cat(t)
	var orphans []int
	r := Readers{Tree: Tree{Leader: pid, Parent: os.Getpid(), Orphans: func() []int { return orphans }}}
	eventually(t, func() bool {
		if reader, err := r.Look(file); err != nil || reader != nil {
			t.Fatal(reader, err)
		}
		_, err := ranFor(pid)
		return err != nil || r.unchanged()
	})
	orphans = []int{orphan}
	eventually(t, func() bool {
		reader, err := r.Look(file)
		return err == nil && reader != nil && reader.PID == orphan
	})
}

// A program can do nothing else only if its call waits for no other file and for no time.
func TestWhoWaitsForNothingElse(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(read.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	m := member{Process: procs.Process{PID: os.Getpid(), Threads: 1}, file: ptyio.InputFile{FileSystem: uint64(stat.Dev), Inode: stat.Ino}}
	in, out := int32(read.Fd()), int32(write.Fd())
	at := func(p unsafe.Pointer) uint64 { return uint64(uintptr(p)) }
	alone, both := []unix.PollFd{{Fd: in, Events: unix.POLLIN}}, []unix.PollFd{{Fd: in, Events: unix.POLLIN}, {Fd: out, Events: unix.POLLOUT}}
	var one, two unix.FdSet
	one.Set(int(in))
	two.Set(int(in))
	two.Set(int(out))
	long := unix.NsecToTimespec(1e9)
	for what, c := range map[string]struct {
		number    uint64
		arguments [6]uint64
		want      waiting
	}{
		"a read":                         {unix.SYS_READ, [6]uint64{uint64(in)}, waiting{reads: true, only: true}},
		"ppoll":                          {unix.SYS_PPOLL, [6]uint64{at(unsafe.Pointer(&alone[0])), 1}, waiting{reads: true, only: true}},
		"ppoll with a time":              {unix.SYS_PPOLL, [6]uint64{at(unsafe.Pointer(&alone[0])), 1, at(unsafe.Pointer(&long))}, waiting{reads: true}},
		"ppoll of another file":          {unix.SYS_PPOLL, [6]uint64{at(unsafe.Pointer(&both[0])), 2}, waiting{reads: true}},
		"pselect":                        {unix.SYS_PSELECT6, [6]uint64{uint64(in) + 1, at(unsafe.Pointer(&one))}, waiting{reads: true, only: true}},
		"pselect with a time":            {unix.SYS_PSELECT6, [6]uint64{uint64(in) + 1, at(unsafe.Pointer(&one)), 0, 0, at(unsafe.Pointer(&long))}, waiting{reads: true}},
		"pselect of two to read":         {unix.SYS_PSELECT6, [6]uint64{uint64(max(in, out)) + 1, at(unsafe.Pointer(&two))}, waiting{reads: true}},
		"pselect of one to write":        {unix.SYS_PSELECT6, [6]uint64{uint64(max(in, out)) + 1, at(unsafe.Pointer(&one)), at(unsafe.Pointer(&two))}, waiting{reads: true}},
		"pselect of what is out of band": {unix.SYS_PSELECT6, [6]uint64{uint64(max(in, out)) + 1, at(unsafe.Pointer(&one)), 0, at(unsafe.Pointer(&one))}, waiting{reads: true}},
		"poll":                           {sysPoll, [6]uint64{at(unsafe.Pointer(&alone[0])), 1, uint64(1<<32 - 1)}, waiting{reads: true, only: true}},
		"poll with a time":               {sysPoll, [6]uint64{at(unsafe.Pointer(&alone[0])), 1, 1000}, waiting{reads: true}},
		"poll without a time to wait":    {sysPoll, [6]uint64{at(unsafe.Pointer(&alone[0])), 1, 0}, waiting{reads: true}},
	} {
		got := m.waits(call{number: c.number, arguments: c.arguments})
		if m.hidden != nil {
			t.Skip("skipped: the memory of a program cannot be read here")
		}
		if kinds[c.number] != 0 && got != c.want {
			t.Errorf("%s: %+v, want %+v", what, got, c.want)
		}
	}
	runtime.KeepAlive([]any{alone, both, &one, &two, &long})
}

// Nobody else may be at work in a program that can do nothing else.
func TestAProgramOfOneThreadWaitsForNothingElse(t *testing.T) {
	if !supported() {
		t.Skip("skipped: the system does not show in which call a thread sleeps")
	}
	for name, want := range map[string]bool{"one": true, "many": false} {
		var pid int
		var file ptyio.InputFile
		if want {
			pid, file = cat(t)
		} else {
			pid, file = watcher(t, "polls", false) // a program in Go has many threads
		}
		r := Readers{Tree: Tree{Leader: pid}}
		eventually(t, func() bool {
			found, err := r.Look(file)
			return err == nil && found != nil && found.Only == want
		})
		if found, err := r.Look(file); err != nil || found == nil || found.Only != want {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}
}
