package actors

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// fiction is a machine in memory, behind the seam that a host's own spawner uses. The command line of a child lists its
// actions, word by word:
//
//	say:N       N bytes of output
//	part        the beginning of a character
//	sleep:N     nothing for N milliseconds
//	wait        nothing until it is ended
//	cat         what it reads, until the end of its input
//	exit:N      the end, with that code
//	denied      where it has a sandbox: the end, and that the sandbox stopped it
//	awaits:K    from now on a program waits for input of kind K; for none without K
//	awaits:hidden K    the same, and the system does not show it
//	blind:N     the next N looks at it fail; all of them if N is negative
//	run:P A     it executes program P with argument A; if it may not, it says so and will end with code 126. With & between several, at once
//	as:N        from now on process N, and not 7, executes
//	flood:N     N executions that nobody judges
//	listens:N   from now on a program listens on port N of 127.0.0.1; on none without N
//	leave:N     the end of the leader, with that code; one it has started goes on
//
// The first word says what kind it is: prompt children are like our own; others are like a host's, and theirs can go wrong:
//
//	spawn=how, method=how, look=how, resolve=how    with panic, hang, leave (Goexit) or tarry (then panic), and for a spawner fail and late
//	respawn=how                           the same for what follows a denial
//	deaf                                  it never ends
//	lost                                  its exit status is unknown
//	stuck                                 its output is not taken: it ends, but the output does not close before it is abandoned
//	stubborn                              it uses all of its grace
//	parent                                where it is denied, its output and its children end 2 s later
//	mute                                  it never reports the outcome of a write
//	unread                                it takes no input, and reports that 20 ms after its end
type fiction struct {
	mu       sync.Mutex // children live beside each other
	children []*imagined
	hanging  int           // goroutines that block forever
	spawning int           // calls of Spawn under way
	sees     bool          // executions
	held     atomic.Int32  // executions that waited for a person
	judged   atomic.Int32  // executions that were judged
	tardy    atomic.Bool   // answers come too late
	release  chan struct{} // closed at the end, so that they do not
}

func newFiction() *fiction { return &fiction{release: make(chan struct{})} }

// wrong does something that host code should not do.
func (f *fiction) wrong(how string) {
	switch how {
	case "panic":
		panic("deliberate")
	case "leave":
		goruntime.Goexit()
	case "tarry":
		time.Sleep(500 * time.Millisecond)
		panic("deliberate")
	case "hang":
		f.count(&f.hanging, 1)
		defer f.count(&f.hanging, -1)
		<-f.release
	}
}

func (f *fiction) count(what *int, change int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*what += change
}

// hangs returns how many goroutines block forever.
func (f *fiction) hangs() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hanging
}

func (f *fiction) all() []*imagined {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.children)
}

// traits are the properties that the first word names.
func traits(argv []string) map[string]string {
	found := map[string]string{}
	for word := range strings.SplitSeq(argv[0], ",") {
		name, how, _ := strings.Cut(word, "=")
		found[name] = how
	}
	return found
}

func (f *fiction) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	f.count(&f.spawning, 1)
	defer f.count(&f.spawning, -1)
	is := traits(launch.Argv)
	how := is["spawn"]
	if launch.Sandbox == nil {
		how = is["respawn"]
	}
	switch how {
	case "fail":
		return nil, errors.New("deliberate")
	case "late":
		<-ctx.Done()
	default:
		f.wrong(how)
	}
	c := &imagined{machine: f, launch: launch, traits: is, killed: make(chan struct{}), given: make(chan struct{}, 1), credits: make(chan struct{}, ptyio.Credits),
		input: make(chan []byte, 100)}
	_, c.deaf = is["deaf"]
	var child ptyio.Child = c
	if _, prompt := is["prompt"]; prompt {
		child = prompter{c}
	}
	f.mu.Lock()
	f.children = append(f.children, c)
	c.pid = len(f.children)
	f.mu.Unlock()
	launch.Events(ptyio.Spawned{Child: child})
	go c.live()
	return child, nil
}

func (*fiction) Enclose(_ context.Context, c ptyio.Confinement) (ptyio.Enclosure, error) {
	return ptyio.Enclosed(c), nil
}

func (f *fiction) Can(launch ptyio.Launch) (messages.Enforcement, error) {
	e := messages.Enforcement{Level: messages.AssuranceIsolated, Executions: f.sees && launch.Executions != nil}
	if !f.sees {
		e = ptyio.Unseen(e, "it is dark")
	}
	return e, nil
}

func (f *fiction) Resolver() ptyio.Resolver {
	return imaginedPlace{Resolver: ptyio.Local(), machine: f}
}
func (f *fiction) Close() error { return nil }

// imaginedPlace finds every program.
type imaginedPlace struct {
	ptyio.Resolver
	machine *fiction
}

func (p imaginedPlace) Program(_ context.Context, name, _, _ string) (string, error) {
	p.machine.wrong(traits([]string{name})["resolve"])
	if name == "make" {
		return "/usr/bin/make", nil
	}
	return name, nil
}

func (p imaginedPlace) UserShell(context.Context) (string, error) { return "", nil }

// imagined is a child of a fiction.
type imagined struct {
	machine *fiction
	launch  ptyio.Launch
	traits  map[string]string
	pid     int
	deaf    bool
	credits chan struct{}
	input   chan []byte
	killed  chan struct{} // closed when it is to end
	given   chan struct{} // receives a token when it is abandoned

	mu        sync.Mutex // its methods are called from anywhere
	executor  int        // the process that executes; zero for 7
	alike     []string   // what may be executed without being judged again
	over      bool
	eof       bool
	ended     bool // it has reported its last event
	abandoned int
	said      int64
	unread    []func(ptyio.Taken, error) // report the outcomes of writes
	awaits    messages.InputKind
	listens   []ptyio.Listener
	blind     int         // how many looks fail; negative: all, for good
	looks     []time.Time // when it was looked at
}

// prompter is one whose methods return at once.
type prompter struct{ *imagined }

func (prompter) Prompt() {}

func (c *imagined) AwaitedInput() (*messages.AwaitedInput, error) {
	if err := c.look(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.awaits == "" {
		return nil, nil
	}
	kind, hidden := strings.CutPrefix(string(c.awaits), "hidden ")
	kind, only := strings.CutPrefix(kind, "only ")
	return &messages.AwaitedInput{Kind: messages.InputKind(kind), Guess: hidden, Hidden: hidden, Only: only}, nil
}

func (c *imagined) Listeners() ([]ptyio.Listener, error) {
	if err := c.look(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.listens), nil
}

// look counts a look, and fails as long as it is to.
func (c *imagined) look() error {
	c.mu.Lock()
	c.looks = append(c.looks, time.Now())
	blind, blinder := c.blind > 0, c.blind < 0
	if blind {
		c.blind--
	}
	c.mu.Unlock()
	c.fails("look")
	switch {
	case blind:
		return &messages.Error{Code: messages.ErrRuntimeFailure, Op: "look", Detail: "there are no descriptors"}
	case blinder:
		return &messages.Error{Code: messages.ErrUnsupported, Op: "look", Detail: "it is dark"}
	}
	return nil
}

// lookedAt is when it was looked at.
func (c *imagined) lookedAt() []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.looks)
}

// live does the things that the command line names.
func (c *imagined) live() {
	exit, left := ptyio.Exited{Status: messages.StatusExited(0)}, false
	for _, word := range c.launch.Argv[1:] {
		verb, number, _ := strings.Cut(word, ":")
		n, _ := strconv.Atoi(number)
		switch verb {
		case "say":
			c.say([]byte(strings.Repeat("x", n)))
		case "part": // of a character
			c.say([]byte("\xe2\x82"))
		case "sleep":
			select {
			case <-time.After(time.Duration(n) * time.Millisecond):
			case <-c.killed:
			}
		case "wait":
			<-c.killed
		case "cat":
			c.cat()
		case "awaits":
			c.mu.Lock()
			c.awaits = messages.InputKind(number)
			c.mu.Unlock()
		case "blind":
			c.mu.Lock()
			c.blind = n
			c.mu.Unlock()
		case "listens":
			c.mu.Lock()
			c.listens = nil
			if n != 0 {
				c.listens = []ptyio.Listener{{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(n))}}
			}
			c.mu.Unlock()
		case "run":
			if !c.executesAll(number) {
				exit.Status = messages.StatusExited(126)
			}
		case "as":
			c.executor = n
		case "flood":
			batch := slices.Repeat([]ptyio.Execution{{Program: "/usr/bin/true", Argv: []string{"true"}}}, 100)
			for range n / len(batch) {
				c.launch.Executions.Seen(batch[:90], 10)
			}
		case "make all; make other": // a script
			c.executesAll("make all")
			c.executesAll("make other")
			c.executesAll("make third")
		case "exit":
			exit.Status = messages.StatusExited(n)
		case "denied":
			if c.launch.Sandbox != nil {
				exit.Status, exit.Denial = messages.StatusExited(1), &messages.Denial{Operation: "something"}
				if _, stuck := c.traits["stuck"]; stuck {
					c.hold(exit)
					return
				}
				_, left := c.traits["parent"]
				if left {
					c.launch.Events(exit)
					c.launch.Events(ptyio.Background{Count: 1})
					time.Sleep(2 * time.Second)
					c.launch.Events(ptyio.Drained{})
				}
				c.end(exit, left)
				return
			}
		case "trail": // what follows comes behind the exit
			c.launch.Events(exit)
		case "leave":
			left, exit.Status = true, messages.StatusExited(n)
			c.launch.Events(exit)
			c.launch.Events(ptyio.Background{Count: 1})
			c.launch.Events(ptyio.Drained{})
		}
		if c.isOver() {
			exit.Status = messages.StatusSignaled(syscall.SIGTERM)
			break
		}
	}
	if c.deaf {
		<-c.machine.release
	}
	if _, lost := c.traits["lost"]; lost {
		exit = ptyio.Exited{Status: messages.StatusNone(), Lost: errors.New("the machine is gone")}
	}
	if _, stuck := c.traits["stuck"]; stuck {
		c.hold(exit)
		return
	}
	c.end(exit, left)
}

// executesAll reports whether it may execute all of several programs.
func (c *imagined) executesAll(text string) (all bool) {
	commands := strings.Split(text, " & ")
	verdicts := make(chan bool, len(commands))
	for _, command := range commands {
		go func() { verdicts <- c.executes(strings.Fields(command)) }()
	}
	all = true
	for range commands {
		all = <-verdicts && all
	}
	if !all {
		c.say([]byte("sh: Permission denied\n"))
	}
	return all
}

// executes reports whether it may execute a program, which is seen or judged before.
func (c *imagined) executes(argv []string) bool {
	x := c.launch.Executions
	if x == nil || !c.machine.sees {
		return true
	}
	e := ptyio.Execution{PID: cmp.Or(c.executor, 7), Parent: c.pid, Program: "/usr/bin/" + argv[0], Resolved: "/usr/bin/" + argv[0], Argv: argv, Dir: c.launch.Dir}
	c.mu.Lock()
	known := slices.Contains(c.alike, strings.Join(argv, " "))
	c.mu.Unlock()
	if known || !slices.Contains(x.Names, argv[0]) {
		x.Seen([]ptyio.Execution{e}, 0)
		return true
	}
	ctx, gone := context.WithCancelCause(context.Background())
	late := time.AfterFunc(ptyio.JudgeWait, func() { gone(ptyio.ErrJudgedLate) })
	verdict := make(chan ptyio.Verdict, 1)
	c.machine.judged.Add(1)
	go func() {
		v, settled := x.Judge(ctx, e, func() { late.Stop(); c.machine.held.Add(1) })
		switch {
		case settled == nil:
		case c.machine.tardy.Load():
			v = ptyio.Refused
			settled(ptyio.ErrJudgedLate)
		default:
			settled(context.Cause(ctx))
		}
		verdict <- v
	}()
	select {
	case v := <-verdict:
		if v == ptyio.AllowedAlike {
			c.mu.Lock()
			c.alike = append(c.alike, strings.Join(argv, " "))
			c.mu.Unlock()
		}
		return v != ptyio.Refused
	case <-c.killed:
		gone(ptyio.ErrCallerGone)
		<-verdict
		return false
	}
}

// hold ends without its output.
func (c *imagined) hold(exit ptyio.Exited) {
	c.launch.Events(exit)
	<-c.killed
	c.launch.Events(ptyio.TreeEnded{TreeReport: messages.TreeReport{Ended: 1, Airtight: true}})
	<-c.given
	c.launch.Events(ptyio.Closed{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

func (c *imagined) end(exit ptyio.Exited, left bool) {
	if !left {
		c.launch.Events(exit)
		c.launch.Events(ptyio.Drained{})
	}
	c.launch.Events(ptyio.Closed{})
	c.launch.Events(ptyio.TreeEnded{TreeReport: messages.TreeReport{Ended: 1, Airtight: true}})
	c.mu.Lock()
	unread := c.unread
	c.ended = true
	c.mu.Unlock()
	if len(unread) > 0 {
		time.Sleep(20 * time.Millisecond)
	}
	for _, done := range unread {
		done(ptyio.Taken{}, messages.ErrClosed)
	}
}

// say sends output under credit.
func (c *imagined) say(text []byte) {
	for len(text) > 0 {
		batch := text[:min(len(text), ptyio.MaxBatch)]
		text = text[len(batch):]
		select {
		case c.credits <- struct{}{}:
		case <-c.killed:
			return
		}
		c.mu.Lock()
		c.said += int64(len(batch))
		c.mu.Unlock()
		c.launch.Events(ptyio.NewOutput(messages.StreamStdout, batch, func() { <-c.credits }))
	}
}

func (c *imagined) cat() {
	for {
		select {
		case text := <-c.input:
			if text == nil {
				return
			}
			c.say(text)
		case <-c.killed:
			return
		}
	}
}

func (c *imagined) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.over = true
		close(c.killed)
	}
}

func (c *imagined) isOver() bool {
	select {
	case <-c.killed:
		return true
	default:
		return false
	}
}

// fails goes wrong in one of its methods. It is no use for those that must not.
func (c *imagined) fails(method string) { c.machine.wrong(c.traits[method]) }

func (c *imagined) PID() int { return c.pid }

func (c *imagined) Write(input []byte, _ time.Time, done func(ptyio.Taken, error)) func() int {
	c.fails("write")
	if _, mute := c.traits["mute"]; mute {
		return nil
	}
	if _, unread := c.traits["unread"]; unread {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unread = append(c.unread, done)
		return nil
	}
	select {
	case c.input <- slices.Clone(input):
		done(ptyio.Taken{Bytes: len(input)}, nil)
	default:
		done(ptyio.Taken{}, messages.ErrInputFull)
	}
	return nil
}

func (c *imagined) CloseStdin(done func(error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.eof {
		c.eof = true
		go func() {
			select {
			case c.input <- nil:
			case <-c.machine.release:
			}
		}()
	}
	done(nil)
}

func (c *imagined) Resize(messages.Size) error {
	c.fails("resize")
	return nil
}

func (c *imagined) Signal(syscall.Signal, ptyio.Scope) error {
	c.fails("signal")
	c.kill()
	return nil
}

func (c *imagined) EndTree(grace time.Duration) {
	c.fails("end")
	if _, stubborn := c.traits["stubborn"]; stubborn {
		time.AfterFunc(grace, c.kill)
		return
	}
	c.kill()
}

func (c *imagined) Abandon() {
	c.mu.Lock()
	c.abandoned++
	c.mu.Unlock()
	c.fails("abandon")
	c.giveUp()
	c.kill()
}

// giveUp lets go of its output.
func (c *imagined) giveUp() {
	select {
	case c.given <- struct{}{}:
	default:
	}
}

// state is whether it has ended, and how often it was abandoned.
func (c *imagined) state() (ended bool, abandoned int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended, c.abandoned
}
