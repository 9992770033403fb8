package window

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/execbus/execbus/messages"
)

// How often those who look at the window get another look at the processes: after an event at once, but not twice within soon; while
// something happens every often; otherwise less and less often, down to every seldom, so that an idle page costs nothing to speak of.
const (
	soon     = 100 * time.Millisecond
	often    = time.Second
	seldom   = 10 * time.Second
	lookTime = 3 * time.Second // bounds one look at everything
	samples  = 30              // in a plot
)

// look is what was found at one moment. It is never changed: all who look at the window share it.
type look struct {
	sessions  []sessionLook
	processes []*process // those that live, and then those that are remembered
	pages     sync.Map   // sight → func() blocks: what pages show of it, made when the first one needs it
}

// sight is a page as one kind of person sees it.
type sight struct {
	key
	query  string
	since  int64 // when the page has taken the keyboard
	reader bool
}

// shared makes what a page shows, or finds it made. The pages are as many as connections, so they are bounded, too.
func (l *look) shared(v sight, make func() blocks) blocks {
	page, _ := l.pages.LoadOrStore(v, sync.OnceValue(make))
	return page.(func() blocks)()
}

type sessionLook struct {
	ID        messages.SessionID
	Live      int
	Waiting   int // processes that wait for input
	Questions messages.Questions
	Grants    messages.Grants
	Error     string
}

// process is what a look has found about one.
type process struct {
	key
	info messages.ProcessInfo
	row  row
	html string // of the row
	past series
}

// series are the last samples of a process, the newest last.
type series struct {
	at                time.Time
	cpuSoFar, output  int64
	cpu, memory, rate []float64 // percent of a processor, bytes, bytes a second
}

// sampler looks at all processes while somebody looks at the window.
type sampler struct {
	w    *Window
	wake chan struct{}

	// The lock is held to replace or read these: one goroutine looks, and connections come and go.
	mu      sync.Mutex
	users   int
	stop    context.CancelFunc
	latest  *look
	changed chan struct{}
}

func newSampler(w *Window) *sampler {
	return &sampler{w: w, wake: make(chan struct{}, 1), latest: &look{}, changed: make(chan struct{})}
}

// poke asks for a look now.
func (s *sampler) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// join begins the looks, if nobody was there before.
func (s *sampler) join() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users++; s.users == 1 {
		ctx, stop := context.WithCancel(s.w.ctx)
		s.stop = stop
		s.w.work.Go(func() { s.run(ctx) })
	}
	s.poke()
}

func (s *sampler) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users == 0 {
		s.stop()
	}
}

func (s *sampler) now() (*look, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest, s.changed
}

func (s *sampler) run(ctx context.Context) {
	before := &look{}
	for pause := time.Duration(0); ; {
		select {
		case <-time.After(pause):
		case <-s.wake:
			select {
			case <-time.After(soon):
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return
		}
		next, busy := s.look(ctx, before)
		if ctx.Err() != nil { // it has not seen everything
			return
		}
		before = next
		s.mu.Lock()
		s.latest = next
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
		if pause = min(2*max(pause, often), seldom); busy {
			pause = often
		}
	}
}

// look looks at everything once, and says whether anything uses the machine or waits for a person.
func (s *sampler) look(ctx context.Context, before *look) (next *look, busy bool) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	past := map[key]*process{}
	for _, p := range before.processes {
		past[p.key] = p
	}
	next = &look{}
	open := s.w.source.Sessions()
	leaders := map[int]bool{}
	for _, session := range open {
		seen := sessionLook{ID: session.ID()}
		infos, err := session.List(ctx)
		records, err2 := session.Records(ctx)
		if err = cmp.Or(err, err2); err != nil { // what was there may still be there
			seen.Error = err.Error()
			for _, p := range before.processes {
				if p.Session == seen.ID {
					kept := *p
					next.processes = append(next.processes, &kept)
				}
			}
			next.sessions = append(next.sessions, seen)
			continue
		}
		for _, r := range records {
			if r.End != nil {
				infos = append(infos, r)
			}
		}
		for _, info := range infos {
			p := &process{key: key{session.ID(), info.Process}, info: info}
			if old := past[p.key]; old != nil && old.info.Began.Equal(info.Began) {
				p.past, p.row, p.html = old.past, old.row, old.html
			}
			if info.End == nil {
				seen.Live++
				if info.PID != 0 {
					leaders[info.PID] = true
				}
				if info.Awaits != nil && info.Awaits.Input != nil {
					seen.Waiting++
				}
			}
			next.processes = append(next.processes, p)
		}
		if asks := own(session); asks != nil {
			seen.Questions, _ = asks.Questions(ctx) // a session that has just ended has none
			seen.Grants, _ = asks.Grants(ctx)
		}
		busy = busy || len(seen.Questions) > 0
		next.sessions = append(next.sessions, seen)
	}
	found := usages(leaders)
	for _, p := range next.processes {
		if p.info.End == nil && p.info.State == messages.StateRunning {
			s.sample(ctx, p, found)
			busy = busy || p.past.active()
		}
		if r := rowOf(p, s.w.access.path); r != p.row || p.html == "" {
			p.row, p.html = r, execute("row", r)
		}
	}
	slices.SortFunc(next.sessions, func(a, b sessionLook) int { return strings.Compare(string(a.ID), string(b.ID)) })
	slices.SortStableFunc(next.processes, func(a, b *process) int {
		if (a.info.End == nil) != (b.info.End == nil) {
			if a.info.End == nil {
				return -1
			}
			return 1
		}
		return cmp.Or(b.info.Began.Compare(a.info.Began), int(a.Process-b.Process))
	})
	return next, busy
}

// sample adds what a process uses now to its series.
func (s *sampler) sample(ctx context.Context, p *process, found map[int]usage) {
	now, old := time.Now(), p.past
	used, known := found[p.info.PID]
	total := old.output
	if session := s.w.source.Session(p.Session); session != nil {
		if page, err := session.Read(ctx, messages.ReadOutput{Process: p.Process, Tail: 1, Max: 1}); err == nil {
			total = page.Total
		}
	}
	p.past.at, p.past.cpuSoFar, p.past.output = now, used.cpu, total
	elapsed := now.Sub(old.at).Seconds()
	if old.at.IsZero() || elapsed < often.Seconds()/2 { // too short to tell
		if !old.at.IsZero() {
			p.past = old
		}
		return
	}
	p.past.rate = appended(old.rate, float64(max(0, total-old.output))/elapsed)
	if known {
		p.past.cpu = appended(old.cpu, float64(max(0, used.cpu-old.cpuSoFar))/elapsed) // a hundredth of a second a second is a percent
		p.past.memory = appended(old.memory, float64(used.memory))
	}
}

// appended is a copy with one more, without the oldest if there are enough.
func appended(list []float64, v float64) []float64 {
	return append(slices.Clone(list[max(0, len(list)-samples+1):]), v)
}

// active reports whether it has used the processor or printed something of late.
func (s series) active() bool {
	recent := func(list []float64, over float64) bool {
		return slices.ContainsFunc(list[max(0, len(list)-3):], func(v float64) bool { return v > over })
	}
	return len(s.rate) < 3 || recent(s.cpu, 0.5) || recent(s.rate, 0)
}

// size is a number of bytes for people.
func size(n float64) string {
	for _, unit := range []string{"B", "KiB", "MiB"} {
		if n < 1000 {
			return fmt.Sprintf("%.3g %s", n, unit)
		}
		n /= 1024
	}
	return fmt.Sprintf("%.3g GiB", n)
}
