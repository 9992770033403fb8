package executions

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/seccomp"
)

// Filter is for one birth: a filter of its process, and of all that descend from it, which reports executions to a listener of ours.
type Filter struct {
	// Steps set it. The child must share our descriptors until then, and leave them at once: when we have died, executions wait for ever
	// if another process still has the listener.
	Steps []birth.Step
	// Secret is shown by the one execution that is not reported: that of the birth.
	Secret birth.Secret
	// Kept has the listener in its first word, or an errno as the kernel returns it.
	Kept *birth.Memory
}

// NewFilter returns a filter with a secret of its own.
func NewFilter() (*Filter, error) {
	secret, err := birth.NewSecret()
	if err != nil {
		return nil, err
	}
	kept := birth.NewMemory(^uint64(0))
	return &Filter{Steps: []birth.Step{birth.NoNewPrivs(), birth.Listen(seccomp.Executions(secret)).Keep(kept, 0)}, Secret: secret, Kept: kept}, nil
}

// Listener returns the listener once the child has executed its program, or has ended; -1 if there is none, as for a child that was killed
// before. It is the caller's.
func (f *Filter) Listener(child *birth.Child) int {
	if f == nil {
		return -1
	}
	listener := max(int(int64(child.Word(f.Kept, 0))), -1)
	if listener >= 0 {
		// It is no lost one, then. Go's poller needs it, too; the kernel does not look at it.
		_ = unix.SetNonblock(listener, true)
	}
	return listener
}

// CloseLost closes the listeners of children that were killed in the call that makes one: the kernel had put it among our descriptors, and
// the child could no longer say where. know calls Listener for each birth that is under way and has a filter. Until CloseLost returns,
// no other may begin, and none of their listeners may be closed.
func CloseLost(know func()) {
	var lost []int
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, entry := range entries {
		fd, _ := strconv.Atoi(entry.Name())
		if isLost(fd) {
			lost = append(lost, fd)
		}
	}
	know() // after the children were seen to be dead: they say nothing more
	for _, fd := range lost {
		if isLost(fd) {
			_ = unix.Close(fd)
		}
	}
}

// isLost reports whether a descriptor is a listener that no Filter knows, and on which nobody can execute anything any more.
func isLost(fd int) bool {
	if target, _ := readlink("/proc/self/fd/" + strconv.Itoa(fd)); target != "anon_inode:seccomp notify" {
		return false
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	ready := []unix.PollFd{{Fd: int32(fd)}}
	_, _ = unix.Poll(ready, 0)
	return err == nil && flags&unix.O_NONBLOCK == 0 && ready[0].Revents&unix.POLLHUP != 0
}

const (
	// maxHung bounds the goroutines of a tree that read for too long. While there are so many, no execution of the tree is read.
	maxHung = 4
	// maxBatchBytes bounds the bytes of a batch of reports.
	maxBatchBytes = 256 << 10
	// maxKnown and maxKnownBytes bound the executions of a tree that are allowed without a question, and the size of each: 128 KiB in sum.
	// When there is one more, all are forgotten.
	maxKnown      = 256
	maxKnownBytes = 512
)

// waits are the times of a watch; tests have shorter ones.
type waits struct {
	// read is how long it may take to read one execution. The caller's memory may be a file that nobody brings, and a directory on the
	// way may lie in a file system that does not answer.
	read  time.Duration
	judge time.Duration // how long an answer may take, unless it is held
	look  time.Duration // between two looks at what waits; there are none while nothing does
}

var defaultWaits = waits{read: time.Second, judge: JudgeWait, look: 100 * time.Millisecond}

// Watch sees the executions of one tree. It is safe for concurrent use.
type Watch struct {
	file   *os.File
	raw    syscall.RawConn
	wanted Wanted
	names  map[string]struct{}
	to     To
	waits  waits

	// mu guards the fields below, which the goroutine that reads, the looks and the answers share. The answers come on the thread that
	// spawns, which must not wait.
	mu        sync.Mutex
	wake      sync.Cond // asked, bytes, closed, reporting or settling has changed
	closed    bool
	reading   *reading // nil while the goroutine waits
	hung      int
	asked     map[uint64]*question
	bytes     int                 // of them
	known     map[string]struct{} // what is allowed without a question
	looks     bool
	busy      bool // something has happened since the last look
	batch     []Execution
	batchSize int
	dropped   int
	reporting bool
	settling  int // answers and looks that are about to say what became of executions
}

// To is told what is seen. Its functions may block, and are called from several goroutines, Seen from one at a time.
type To struct {
	// Ask asks about an execution; Answer must follow. It gets the number of the question.
	Ask func(number uint64, e Execution)
	// Settled says what became of an execution, unless an answer refused it. It may come before the question was answered, and after an
	// answer that was on its way: that one means nothing then.
	Settled func(number uint64, fate Fate)
	Seen    func(batch []Execution, dropped int)
}

type question struct {
	until time.Time
	held  bool
	bytes int
	key   string // of the execution; empty if an answer holds for nothing else
}

// reading is one notification while it is read.
type reading struct {
	notification
	since time.Time
	late  bool // it was answered, and another goroutine serves now
}

// Start watches with a listener, which it takes over, until the tree is gone or Close.
func Start(listener int, wanted Wanted, to To) *Watch {
	w := newWatch(listener, wanted, to, defaultWaits)
	go w.serve()
	return w
}

func newWatch(listener int, wanted Wanted, to To, waits waits) *Watch {
	wakeHere(listener)
	w := &Watch{file: os.NewFile(uintptr(listener), "executions"), wanted: wanted, names: make(map[string]struct{}, len(wanted.Names)), to: to, waits: waits,
		asked: map[uint64]*question{}, known: map[string]struct{}{}}
	w.wanted.Names = nil
	w.wake.L = &w.mu
	for _, name := range wanted.Names {
		w.names[strings.Clone(name)] = struct{}{} // it is a part of the whole request
	}
	w.raw, _ = w.file.SyscallConn()
	return w
}

// Close forgets the tree. Executions that wait, and later ones, fail with ENOSYS. When it returns, all reports were passed on, and what
// became of those that were asked about was said, except of those that were waiting.
func (w *Watch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		clear(w.asked)
		clear(w.known)
		w.wake.Broadcast()
		_ = w.file.Close()
	}
	for w.reporting || w.settling > 0 {
		w.wake.Wait()
	}
	if len(w.batch)+w.dropped > 0 {
		w.send()
	}
	for w.reporting {
		w.wake.Wait()
	}
}

// serve is the goroutine that reads, and then decides or asks. It asks nobody twice at once, so a tree that executes fast slows itself.
func (w *Watch) serve() {
	var c caller
	for {
		n, open := w.receive()
		if !open {
			w.Close()
			return
		}
		r := &reading{notification: n, since: time.Now()}
		w.mu.Lock()
		w.reading = r
		hopeless := w.hung >= maxHung
		w.look()
		w.mu.Unlock()
		e := Execution{Unread: "its file systems do not answer"}
		var errno unix.Errno
		judged := w.wanted.Judge
		if !hopeless {
			e, judged, errno = w.read(&c, r)
		}
		w.mu.Lock()
		w.reading = nil
		if r.late {
			w.hung--
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		w.decide(n, e, judged, errno)
	}
}

// decide passes on what was read of an execution. An errno is that of one that cannot succeed.
func (w *Watch) decide(n notification, e Execution, judged bool, errno unix.Errno) {
	switch {
	case errno != 0:
		w.respond(n.id, errno)
	case judged && !w.knows(e):
		w.ask(n, e)
	case w.respond(n.id, 0) && w.wanted.Report:
		w.report(e)
	}
}

// ask asks about an execution once there is room for the question.
func (w *Watch) ask(n notification, e Execution) {
	q := &question{bytes: size(e), key: key(e)}
	w.mu.Lock()
	for !w.closed && len(w.asked) > 0 && (len(w.asked) >= MaxJudged || w.bytes+q.bytes > MaxJudgedBytes) {
		w.wake.Wait()
	}
	if w.closed || !w.valid(n.id) { // what was read may belong to another process
		w.mu.Unlock()
		return
	}
	q.until = time.Now().Add(w.waits.judge)
	w.asked[n.id], w.bytes = q, w.bytes+q.bytes
	w.look()
	w.mu.Unlock()
	w.to.Ask(n.id, e)
}

func size(e Execution) int {
	size := len(e.Program) + len(e.Resolved) + len(e.Dir)
	for _, arg := range e.Argv {
		size += len(arg) + int(unsafe.Sizeof(arg))
	}
	return size
}

// key is equal for executions that are the same for who judges them. It is empty for those that are judged each time.
func key(e Execution) string {
	if e.Unread != "" || size(e) > maxKnownBytes {
		return ""
	}
	return strings.Join(append([]string{e.Program, e.Resolved}, e.Argv...), "\x00") // no text has a zero byte
}

// knows reports whether an execution is allowed because another one was.
func (w *Watch) knows(e Execution) (known bool) {
	key := key(e)
	w.mu.Lock()
	defer w.mu.Unlock()
	_, known = w.known[key]
	return known && key != ""
}

// Answer answers a question. One that was withdrawn is no longer there.
func (w *Watch) Answer(number uint64, v Verdict) {
	w.mu.Lock()
	q := w.asked[number]
	switch {
	case q == nil:
	case v == Later:
		q.held = true
	default:
		w.forget(number)
		w.settling++
	}
	if q != nil && v == AllowAlike && q.key != "" {
		if len(w.known) == maxKnown {
			clear(w.known)
		}
		w.known[q.key] = struct{}{}
	}
	w.mu.Unlock()
	switch {
	case q == nil || v == Later:
		return
	case v != Allow && v != AllowAlike:
		w.respond(number, unix.EACCES)
	case w.respond(number, 0):
		w.to.Settled(number, Passed)
	default:
		w.to.Settled(number, Gone)
	}
	w.settled()
}

// settled says that what had to be said of executions was said.
func (w *Watch) settled() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settling--
	w.wake.Broadcast()
}

// forget is called with w.mu held.
func (w *Watch) forget(number uint64) {
	w.bytes -= w.asked[number].bytes
	delete(w.asked, number)
	w.wake.Broadcast()
}

// report keeps an execution for the next batch. There is at most one batch under way.
func (w *Watch) report(e Execution) {
	w.mu.Lock()
	defer w.mu.Unlock()
	bytes := size(e)
	if len(w.batch) == MaxReported || w.batchSize+bytes > maxBatchBytes {
		w.dropped++
		return
	}
	w.batch, w.batchSize = append(w.batch, e), w.batchSize+bytes
	if len(w.batch) == MaxReported && !w.reporting {
		w.send()
		return
	}
	w.look()
}

// send sends the batch. It is called with w.mu held.
func (w *Watch) send() {
	batch, dropped := w.batch, w.dropped
	w.batch, w.batchSize, w.dropped, w.reporting = nil, 0, 0, true
	go func() {
		w.to.Seen(batch, dropped)
		w.mu.Lock()
		w.reporting = false
		w.wake.Broadcast()
		w.mu.Unlock()
	}()
}

// look makes sure that what waits is looked at. It is called with w.mu held.
func (w *Watch) look() {
	w.busy = true
	if !w.looks {
		w.looks = true
		time.AfterFunc(w.waits.look, w.lookAgain)
	}
}

// lookAgain takes over from a goroutine that hangs, withdraws questions, and sends reports.
func (w *Watch) lookAgain() {
	now := time.Now()
	var gone, late []uint64
	w.mu.Lock()
	hanging := w.reading
	if hanging != nil && now.Sub(hanging.since) >= w.waits.read {
		hanging.late, w.reading = true, nil
		w.hung++
	} else {
		hanging = nil
	}
	for number, q := range w.asked {
		switch {
		case !w.valid(number):
			gone = append(gone, number)
		case !q.held && now.After(q.until):
			late = append(late, number)
		}
	}
	for _, number := range append(gone, late...) {
		w.forget(number)
	}
	if len(w.batch)+w.dropped > 0 && !w.reporting {
		w.send()
	}
	again := !w.closed && (w.busy || w.reading != nil || len(w.asked) > 0 || len(w.batch) > 0)
	w.busy, w.looks = false, again
	w.settling++
	w.mu.Unlock()
	if again {
		time.AfterFunc(w.waits.look, w.lookAgain)
	}
	for _, number := range late {
		w.respond(number, unix.EACCES)
		w.to.Settled(number, Late)
	}
	for _, number := range gone {
		w.to.Settled(number, Gone)
	}
	w.settled()
	if hanging != nil {
		w.decide(hanging.notification, Execution{Unread: "it could not be read within a second"}, w.wanted.Judge, 0)
		go w.serve()
	}
}

// notification is the kernel's seccomp_notif, with room for what a newer kernel may add.
type notification struct {
	id         uint64
	pid, flags uint32
	number     int32
	arch       uint32
	pointer    uint64
	args       [6]uint64
	_          [128]byte
}

// response is the kernel's seccomp_notif_resp, with room for more.
type response struct {
	id    uint64
	value int64
	errno int32
	flags uint32
	_     [64]byte
}

// receive waits for an execution. It reports whether the listener is open and the tree lives.
func (w *Watch) receive() (n notification, open bool) {
	err := w.raw.Read(func(fd uintptr) bool {
		for {
			ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			switch _, err := unix.Poll(ready, 0); {
			case err == unix.EINTR:
				continue
			case ready[0].Revents&unix.POLLIN == 0: // to receive would block
				return ready[0].Revents != 0
			}
			n = notification{}
			switch ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)) {
			case 0:
				open = true
				return true
			case unix.EINTR, unix.ENOENT: // it was killed in the meantime
			default:
				return true
			}
		}
	})
	return n, open && err == nil
}

// respond lets an execution happen, or fails it with an errno. It reports whether the caller was still there.
func (w *Watch) respond(id uint64, errno unix.Errno) (there bool) {
	r := response{id: id, errno: -int32(errno)}
	if errno == 0 {
		r.flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
	}
	_ = w.raw.Control(func(fd uintptr) { there = ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r)) == 0 })
	return there
}

// valid reports whether the caller still waits.
func (w *Watch) valid(id uint64) (there bool) {
	_ = w.raw.Control(func(fd uintptr) { there = ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id)) == 0 })
	return there
}

// ioctl repeats a call that a signal has interrupted.
func ioctl(fd, request uintptr, argument unsafe.Pointer) unix.Errno {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(argument))
		if errno != unix.EINTR {
			return errno
		}
	}
}

// wakeHere makes the kernel wake the two sides on one processor, since one of them always waits (Linux 6.6).
func wakeHere(listener int) {
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
}
