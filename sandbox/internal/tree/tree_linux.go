package tree

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/procs"
)

// Bounds of an ending.
const (
	// settle is how long background children have after the leader's exit to finish by themselves, so that the tail of a
	// pipeline or a process substitution can still write what it read.
	settle = 50 * time.Millisecond
	// firstWait and longestWait bound the time between two looks at the rest of a tree.
	firstWait   = time.Millisecond
	longestWait = 10 * time.Millisecond
	// killWait is how long after the first SIGKILL a member may take to disappear before it is named as a survivor; only
	// a process inside an uninterruptible system call needs more than a moment.
	killWait = 3 * time.Second
	// busyWait is how much longer members may take that are dying and only lack a processor.
	busyWait = 27 * time.Second
	// killAgain is the time between two SIGKILLs, for what was forked meanwhile.
	killAgain = 20 * time.Millisecond
	// keptPoll is how often, at most, a kept tree is checked for its end.
	keptPoll = 100 * time.Millisecond
	// maxPasses bounds the walks of one freeze. If a tree forks faster than it can be walked, the members found so far are killed,
	// and the tree is walked again.
	maxPasses = 32
)

// Tree is one leader with its descendants. It is safe for concurrent use.
type Tree struct {
	forest *Forest
	spec   Spec
	pid    int
	fd     int      // the leader's pidfd, until Watch takes it over
	pidfd  *os.File // of Watch
	// child is the leader until it has executed its program; after that it is nil. forest.mu guards the change.
	child    *birth.Child
	givenUp  bool          // it was killed because it hung; guarded by forest.mu
	executed chan struct{} // closed when it has executed its program, or never will
	// No member began before this: clock ticks after boot.
	earliest uint64
	list     *childList // of the thread that started the leader; nil where orphans do not come to us
	mark     Mark
	listener int       // of executions; -1 for none
	isolated *isolated // nil if the leader is the root; otherwise process 1 of a namespace is, and pid and pidfd are those of process 1
	// roots lists the members that are not children of living members. settled says that none died meanwhile.
	roots func() ([]procs.Process, bool)

	exited  chan struct{} // closed when the leader is a zombie
	counted chan struct{} // closed after the call of Exited, and of Left if there is one: Ended must come after them
	done    chan struct{}
	shorter chan struct{} // the grace was shortened

	// Guarded by forest.mu.
	begun bool
	until time.Time                   // the end of the grace
	seen  map[procs.Identity]struct{} // members met since the ending began
	// unsure says that a member could not be seen, or that the search did not settle.
	unsure bool
}

// Mark returns the mark that the processes of the tree have inherited; zero if the tree has none.
func (t *Tree) Mark() Mark { return t.mark }

// Listener is that of Spec.Executions once the leader has executed its program; -1 for none. It is the caller's.
func (t *Tree) Listener() int { return t.listener }

// PID is the leader's pid. It stays the leader's until just before Ended or Over is called.
func (t *Tree) PID() int {
	if t.isolated != nil && t.isolated.leader != 0 {
		return t.isolated.leader
	}
	return t.pid
}

// finished runs after the last report.
func (t *Tree) finished() {
	t.forest.mu.Lock()
	delete(t.forest.unsaid, t)
	t.forest.mu.Unlock()
	t.close()
	close(t.done)
}

// bury reaps a leader that outlived its own report. It is for a process that is not a subreaper.
func (t *Tree) bury() {
	select {
	case <-t.done:
		if !t.forest.subreaper {
			t.reap()
		}
	default:
	}
}

// claim makes the caller the one that ends the tree. If the ending has begun, the caller can only bring its deadline
// forward.
func (t *Tree) claim(until time.Time) bool {
	t.forest.mu.Lock()
	begun := t.begun
	if !begun || until.Before(t.until) {
		t.begun, t.until = true, until
	}
	t.forest.mu.Unlock()
	select {
	case t.shorter <- struct{}{}:
	default:
	}
	return !begun
}

// End starts to end the tree; Ended follows. A further call can only shorten the grace.
func (t *Tree) End(grace time.Duration) {
	if t.claim(time.Now().Add(grace)) {
		go t.finish()
	}
}

func (t *Tree) graceEnd() time.Time {
	t.forest.mu.Lock()
	defer t.forest.mu.Unlock()
	return t.until
}

// finish is the ending: ask, wait, kill, report.
func (t *Tree) finish() {
	var asked *asking
	if time.Now().Before(t.graceEnd()) { // without a grace no member is asked
		asked = t.ask()
	}
	for wait := firstWait; !t.deserted() && time.Now().Before(t.graceEnd()); {
		if asked == nil {
			wait = t.pause(wait, t.graceEnd())
			continue
		}
		wait = t.pause(wait, earlier(asked.look, t.graceEnd()))
		if time.Now().After(asked.look) {
			asked = t.again(asked)
		}
	}
	t.report(t.kill(time.Now().Add(killWait)))
}

// report makes the last report. It waits until the leader is dead, too, unless the leader is among the survivors.
func (t *Tree) report(survivors []Survivor) {
	if !slices.ContainsFunc(survivors, func(s Survivor) bool { return s.PID == t.pid }) {
		<-t.counted
	}
	var strays []Survivor
	for !t.conclude(&strays, len(survivors) > 0) {
		survivors = t.kill(time.Now().Add(killWait))
	}
	t.spec.Ended(t.treeReport(survivors, strays))
	t.finished()
}

func (t *Tree) treeReport(survivors, strays []Survivor) Report {
	return Report{
		Ended: t.met(survivors), Survivors: append(survivors, strays...),
		Airtight: (t.isolated != nil || t.forest.subreaper && t.mark != 0) && len(strays) == 0 && procs.Pidfds() && t.sure(),
	}
}

func (t *Tree) sure() bool {
	t.forest.mu.Lock()
	defer t.forest.mu.Unlock()
	return !t.unsure
}

// conclude removes the tree from the forest's table, unless strays have become its own because no other tree is left.
// Without the lock, two trees that end at once could each leave a stray to the other.
func (t *Tree) conclude(strays *[]Survivor, anyway bool) bool {
	t.forest.concluding.Lock()
	defer t.forest.concluding.Unlock()
	named, fallen := t.strays()
	if fallen && !anyway {
		return false
	}
	*strays = named
	t.forest.forget(t)
	return true
}

// met counts the descendants met since the ending began, without the survivors.
func (t *Tree) met(survivors []Survivor) int {
	t.forest.mu.Lock()
	defer t.forest.mu.Unlock()
	met := 0
	for id := range t.seen {
		if id.PID != t.pid && id.PID != t.PID() && !slices.ContainsFunc(survivors, func(s Survivor) bool { return s.PID == id.PID }) {
			met++
		}
	}
	return met
}

// wait waits for the last report.
func (t *Tree) wait(most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-t.done:
	case <-timer.C:
	}
}

// kill freezes and kills members until none is left. If it is hopeless, kill returns the processes that are left.
func (t *Tree) kill(until time.Time) []Survivor {
	if t.isolated != nil {
		return t.killFirst(until)
	}
	for !t.deserted() {
		refused := t.freeze()
		for _, p := range t.members() {
			if err := procs.Send(p, unix.SIGKILL); err != nil && err != unix.ESRCH {
				refused[p.ID()] = err
			}
		}
		t.awaitEmpty(time.Now().Add(killAgain))
		if t.hopeless(until, refused) {
			return t.giveUp(refused)
		}
	}
	return nil
}

// hopeless reports whether the time is over, and the kernel is not about to end a member that was killed.
func (t *Tree) hopeless(until time.Time, refused map[procs.Identity]error) bool {
	late := time.Since(until)
	return late > busyWait || late > 0 && !slices.ContainsFunc(t.members(), func(p procs.Process) bool { return p.Dying() && refused[p.ID()] == nil })
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// freeze stops members until a walk finds none that runs. So no member can fork unseen.
func (t *Tree) freeze() (refused map[procs.Identity]error) {
	frozen := map[procs.Identity]bool{}
	refused = map[procs.Identity]error{}
	for range maxPasses {
		fresh := false
		for _, p := range t.members() {
			if frozen[p.ID()] {
				continue
			}
			frozen[p.ID()], fresh = true, true
			if err := procs.Send(p, unix.SIGSTOP); err != nil && err != unix.ESRCH {
				refused[p.ID()] = err
			}
		}
		if !fresh {
			break
		}
	}
	return refused
}

// giveUp returns the processes that are left, and notes them, so that no later tree is blamed for them. If they cannot be known,
// the report claims nothing.
func (t *Tree) giveUp(refused map[procs.Identity]error) []Survivor {
	named := t.survivors(refused)
	t.forest.mu.Lock()
	defer t.forest.mu.Unlock()
	t.unsure = t.unsure || len(named) == 0
	for _, s := range named {
		t.forest.survivors[s.PID] = struct{}{}
	}
	return named
}

func (t *Tree) survivors(refused map[procs.Identity]error) []Survivor {
	var named []Survivor
	for _, p := range t.members() {
		why := "did not die of SIGKILL within " + killWait.String() + " (state " + string(p.State) + ")"
		if err := refused[p.ID()]; err != nil {
			why = "cannot be signalled: " + err.Error()
		}
		switch {
		case procs.Scarce(p.Hidden):
			why = "cannot be seen in /proc: " + p.Hidden.Error()
		case p.Hidden != nil:
			why = "cannot be seen in /proc: it is another user's"
		}
		named = append(named, Survivor{PID: p.PID, Name: p.Name, Why: why})
	}
	return named
}

// awaitEmpty waits until the tree is empty or the time is over.
func (t *Tree) awaitEmpty(until time.Time) {
	for wait := firstWait; time.Now().Before(until) && !t.deserted(); {
		wait = t.pause(wait, until)
	}
}

// pause waits before the next check of whether the tree is deserted, and returns how long the next pause may be. It does not wait
// longer than a shortened grace allows. The kernel reports the end of the leader, but not that of other members.
func (t *Tree) pause(wait time.Duration, until time.Time) (next time.Duration) {
	var exited <-chan struct{}
	if t.led() {
		wait, next, exited = time.Until(until), firstWait, t.exited
	} else {
		next = min(2*wait, longestWait)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-exited:
	case <-t.shorter:
	}
	return next
}
