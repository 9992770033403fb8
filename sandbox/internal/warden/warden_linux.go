package warden

import (
	"errors"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/executions"
	"github.com/execbus/execbus/sandbox/internal/procs"
	"github.com/execbus/execbus/sandbox/internal/tree"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

// Descriptors of a warden.
const (
	socketFD = 3
	hostFD   = 4 // a pidfd of the host; something else if the host cannot open one
)

const (
	// grace is how long the trees have to end when the host is gone.
	grace = 500 * time.Millisecond
	// endWait is how long the end may take when the host is gone; then the kernel ends this process.
	endWait = 10 * time.Second
	// maxStarts bounds the starts that wait to be handled. The host never has more of them under way.
	maxStarts = 64
)

func init() {
	if len(os.Args) == 0 || os.Args[0] != Name {
		return
	}
	if err := checkGreeting(); err != nil {
		complain("not started by execbus", err)
		os.Exit(127)
	}
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&append([]byte(Name), 0)[0])), 0, 0, 0) // it says "exe"
	if err := run(); err != nil {
		complain("stopping", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// complain writes an error that the host reads after this process has died. It does without package fmt, which would be
// initialised before this package in every warden.
func complain(what string, err error) {
	_, _ = os.Stderr.WriteString(Name + ": " + what + ": " + err.Error() + "\n")
}

func failed(to string, err error) error { return errors.New("cannot " + to + ": " + err.Error()) }

// warden is the state of the process. The thread that serves does nearly everything: it reads requests, starts leaders, and
// sees them exit. Work that can take long has a goroutine of its own: a birth that hangs, or the end of a tree whose leader has
// exited.
type warden struct {
	conn   *wire.Conn
	forest *tree.Forest
	poll   *poll
	again  chan start // starts that have waited for something else
	alarm  *alarm
	gone   chan struct{} // closed when the host is gone

	// These belong to the thread that serves.
	spawners []*spawner
	plans    planTable
	births   []start          // those that have waited for everything else, in their order
	mail     bool             // the host has sent something
	lost     bool             // it will send nothing more
	rested   bool             // since the last event
	drops    int              // how often it has given back files without finding few at the next look
	yielded  time.Time        // to the scheduler of Go
	children []*child         // whose starts are not answered, and which no goroutine looks after
	leaders  map[int32]*child // by the pidfd that the poll watches

	resting atomic.Bool // a tree that ends is to disturb it

	mu      sync.Mutex // guards trees and watches, which requests, births and endings touch
	trees   map[uint64]*tree.Tree
	watches map[uint64]*executions.Watch // of the trees whose executions are seen
}

// start is a request for the thread that serves. Requests are handled in the order of their arrival. Exactly one
// of spec, register, withdraw, born and over is set.
type start struct {
	id       uint64
	spec     *wire.Start
	register *wire.Register
	withdraw *wire.Withdraw
	born     *child
	over     chan<- struct{} // closed when everything that was kept for commands is removed
	files    []int

	plan   *confine.Plan // for an isolated leader: the plan as its file systems are now
	failed error         // why the plan could not be completed, or the program not executed
	leave  func()        // ends its use of the placeholders; nil if it uses none
	// unshared are directories with placeholders that others may remove.
	unshared []string
}

// run runs a warden until it ends. It is called from init, whose goroutine is locked to the main thread.
func run() error {
	host := takeHost()
	closeInherited()
	if procs.Foreign() {
		return errors.New("/proc is missing, or belongs to another pid namespace")
	}
	forest, err := tree.NewSubreaper()
	if err != nil {
		return failed("become a subreaper", err)
	}
	continueOnMail()
	w := &warden{forest: forest, again: make(chan start, maxStarts), alarm: newAlarm(), gone: make(chan struct{}),
		leaders: map[int32]*child{}, trees: map[uint64]*tree.Tree{}, watches: map[uint64]*executions.Watch{}}
	if err := w.open(); err != nil {
		return failed("take over the host's socket", err)
	}
	marks := forest.Marks()
	if err := w.conn.Send(&wire.Reply{Hello: &wire.Hello{Time: marks.Time, Locks: marks.Locks, Nonce: marks.Nonce}}); err != nil {
		return failed("greet the host", err)
	}
	quit := takeSignals() // while the host prepares its first request
	dead := make(chan struct{})
	if host != nil { // a forked copy of the host may hold the socket open
		go func() {
			tree.AwaitEnd(host)
			w.alarm.in(endWait)
			_ = unix.Shutdown(socketFD, unix.SHUT_RDWR) // a spawning thread may be blocked in a send that nobody reads
			close(dead)
		}()
	}
	go reap(forest)
	if err := w.startSpawning(); err != nil {
		return failed("start a thread", err)
	}
	takeOtherSignals()
	select {
	case <-quit:
	case <-w.gone:
	case <-dead:
	}
	return w.end()
}

// takeSignals takes SIGTERM, SIGHUP, SIGINT and SIGQUIT, which end a Go program that does not take them. Each costs 60 µs: the goroutine
// of init and the one with which Go takes signals are locked to their threads, and hand over to each other.
func takeSignals() (quit chan os.Signal) {
	quit = make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGTERM)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
	return quit
}

// takeOtherSignals takes those that Go ignores, unless they hit a thread of C: that may be there before us, and they would then end this
// process. A stop such as SIGTSTP never comes, because our group is orphaned.
func takeOtherSignals() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM)
}

// open prepares the poll and the connection on which the spawning threads wait.
func (w *warden) open() (err error) {
	if w.poll, err = newPoll(); err != nil {
		return err
	}
	if err = errors.Join(unix.SetNonblock(socketFD, false), w.poll.add(socketFD)); err == nil {
		w.conn, err = wire.NewThreadConn(socketFD, w.await)
	}
	return err
}

// takeHost takes over the pidfd of the host. The file is nil if there is none.
func takeHost() *os.File {
	var info [32]byte
	name := "/proc/self/fd/" + strconv.Itoa(hostFD)
	n, err := unix.Readlink(name, info[:])
	if err != nil || !strings.Contains(string(info[:n]), "pidfd") || unix.SetNonblock(hostFD, true) != nil {
		return nil
	}
	unix.CloseOnExec(hostFD)
	return os.NewFile(hostFD, "host")
}

// closeInherited closes the descriptors that the host has leaked to us. We must not hold them open after the host has closed
// them, and no command may get them. Descriptors that the host's packages have opened in this process before us, such as Go's
// poller, are close-on-exec and stay.
func closeInherited() {
	unix.CloseOnExec(socketFD)
	for _, fd := range openDescriptors() {
		if fd <= socketFD {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}

// openDescriptors lists the open descriptors of this process. If they cannot be listed, it returns all numbers below 65,536.
func openDescriptors() (open []int) {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		for fd := range 1 << 16 {
			open = append(open, fd)
		}
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name.Name()); err == nil {
			open = append(open, fd)
		}
	}
	return open
}

// continueOnMail makes the kernel send SIGCONT to this process whenever the host sends something or dies: a command may have
// stopped this process. If the kernel refuses, the host still sends a SIGCONT every second.
func continueOnMail() {
	for _, set := range []struct{ command, to int }{{unix.F_SETSIG, int(unix.SIGCONT)}, {unix.F_SETOWN, os.Getpid()},
		{unix.F_SETFL, unix.O_RDWR | unix.O_ASYNC}} {
		if _, err := unix.FcntlInt(socketFD, set.command, set.to); err != nil {
			return
		}
	}
}

// end ends all trees. The spawning threads see their leaders exit meanwhile.
func (w *warden) end() error {
	left := w.forest.EndAll(grace)
	over := make(chan struct{})
	w.proceed(start{over: over})
	<-over
	if len(left) > 0 {
		return failed("end "+strconv.Itoa(len(left))+" processes, the first of which is "+left[0].Name, errors.New(left[0].Why))
	}
	return nil
}

// read waits until something has happened, and handles the next request if there is one.
func (w *warden) read() {
	for w.lost || !w.mail && !w.conn.Pending() {
		if w.dispatch(); len(w.births) > 0 {
			return
		}
	}
	var request wire.Request
	if err := w.conn.Receive(&request); err != nil { // the host is gone, or has closed its side only and still reads
		w.lost = true
		w.alarm.in(endWait)
		w.poll.remove(socketFD)
		close(w.gone)
		return
	}
	if count, is := forSpawner(&request); is {
		files, err := w.conn.TakeFiles(count)
		if err != nil {
			w.fail(request.ID, err)
			return
		}
		w.handle(start{id: request.ID, spec: request.Start, register: request.Register, withdraw: request.Withdraw, files: files})
		return
	}
	w.mu.Lock()
	t, watch := w.trees[request.ID], w.watches[request.ID]
	w.mu.Unlock()
	switch {
	case t == nil: // it has ended in the meantime
	case request.Signal != nil:
		_ = t.Signal(request.Signal.Number, request.Signal.Group)
	case request.End != nil:
		t.End(request.End.Grace)
	case request.Judged != nil && watch != nil:
		watch.Answer(request.Judged.Number, request.Judged.Verdict)
	}
}

// forSpawner reports how many descriptors come with a request, and whether it starts a leader or concerns a plan.
func forSpawner(r *wire.Request) (files int, is bool) {
	switch {
	case r.Start != nil:
		return r.Start.Files, true
	case r.Register != nil:
		return r.Register.Files, true
	}
	return 0, r.Withdraw != nil
}

// handle is called by the thread that serves.
func (w *warden) handle(s start) {
	switch {
	case s.born != nil:
		w.executed(s.born, s.failed)
	case s.over != nil:
		w.plans.close()
		close(s.over)
	case s.register != nil:
		w.plans.register(s.id, s.register, s.files)
	case s.withdraw != nil:
		w.plans.withdraw(s.id)
	case w.enter(s): // it waits
	default:
		w.births = append(w.births, s)
	}
}

// startLeader begins one leader that is not isolated.
func (w *warden) startLeader(b *spawner, s start) {
	steps, err := w.plans.confine(s.spec, s.files)
	if err != nil {
		w.refuse(s, err)
		return
	}
	n := &child{start: s}
	spec := w.spec(n)
	spec.Files, spec.Groups, spec.Rlimits = pick(s.spec.FDs, s.files), pick(s.spec.Groups, s.files), s.spec.Rlimits
	spec.Program, spec.Argv, spec.Env, spec.Dir = s.spec.Program, s.spec.Argv, s.spec.Env, s.spec.Dir
	spec.Confine, spec.Secret = steps, b.secret
	if spec.Executions, err = w.executions(n); err != nil {
		w.refuse(s, err)
		return
	}
	if n.tree, err = w.forest.Begin(spec); err != nil {
		w.refuse(s, err)
		return
	}
	if n.plan = w.plans.byID[s.spec.Plan]; n.plan != nil {
		n.plan.uses++
	}
	w.begun(n)
}

// spec returns the part of a specification that all leaders share.
func (w *warden) spec(n *child) tree.Spec {
	s := n.start.spec
	return tree.Spec{
		TTY: s.TTY, Keep: s.Keep, Grace: s.Grace,
		Exited: func(status tree.Status) { w.say(n, wire.Reply{Exited: &status}) },
		Left:   func(count int) { w.say(n, wire.Reply{Left: count}) },
		Ended:  func(report tree.Report) { w.say(n, wire.Reply{Ended: &report}) },
		Over:   func(status tree.Status, report tree.Report) { w.say(n, wire.Reply{Exited: &status, Ended: &report}) },
	}
}

// pick returns the files at these positions among those received; -1 stands for none.
func pick(positions, files []int) []int {
	all := make([]int, len(positions))
	for i, position := range positions {
		all[i] = -1
		if position >= 0 && position < len(files) {
			all[i] = files[position]
		}
	}
	return all
}

// fail answers a start. An error that is not an errno means that we are ending; the host learns that anyway.
func (w *warden) fail(id uint64, err error) {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return
	}
	answer := wire.Failed{Errno: errno}
	if step, ok := errors.AsType[*birth.Error](err); ok {
		answer.Step = step.Step
	}
	_ = w.conn.Send(&wire.Reply{ID: id, Failed: &answer})
}
