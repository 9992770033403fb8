package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// maxChildren bounds the processes of one connection. Each costs a goroutine and the events that wait for its owner.
const maxChildren = 16 << 10

// maxReading bounds the answers to reads that are in memory at once.
const maxReading = 8

// limits are bounds on what the server owes for a process; tests shorten them.
type limits struct {
	drain time.Duration // output, after the leader's exit
	end   time.Duration // any sign, after a process was abandoned
	close time.Duration // the ends of all, after the spawner was closed
	start time.Duration // a start whose answer was lost
	// cancel is for the answer to a start that was cancelled. It is shorter than the patience of a runtime with a spawner.
	cancel time.Duration
	// look is for a question what a process waits for. It is shorter than the patience of a runtime with a child.
	look time.Duration
	// write is for the result of a write, after its deadline or the end of the process. The largest write takes seconds to a busy machine or
	// over a slow network, and without the result nobody knows what was taken.
	write time.Duration
}

func usualLimits() limits {
	return limits{drain: 4 * ptyio.DrainWait, end: 10 * time.Second, close: 10 * time.Second,
		start: 10 * time.Second, cancel: 5 * time.Second, look: 3 * time.Second, write: 5 * time.Second}
}

// spawner starts processes on the machine of a server.
type spawner struct {
	link    *link
	limits  limits
	reading chan struct{} // a token for each read that is under way

	resolver *resolver

	// mu is held for instants: notifications find their process, and the reader of the connection must not wait for an answer.
	mu       sync.Mutex
	children map[string]*child
	closed   bool
	running  sync.WaitGroup // the children; none is added after closed was set
}

func newSpawner(dial dialer, name string, times times, limits limits) *spawner {
	s := &spawner{limits: limits, reading: make(chan struct{}, maxReading), children: map[string]*child{}}
	s.link = &link{dial: dial, name: name, times: times, wanted: []wire.Extension{wire.ExtensionFlow, wire.ExtensionEnds, wire.ExtensionRaw, wire.ExtensionPatches, wire.ExtensionLooks, wire.ExtensionCursor},
		notified: s.notified, resumed: s.resumed, lost: s.lost}
	s.resolver = &resolver{link: s.link}
	return s
}

// Spawn implements ptyio.Spawner.
func (s *spawner) Spawn(ctx context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	params, err := s.request(launch)
	if err != nil {
		return nil, err
	}
	c := s.newChild(uuid.NewString(), launch)
	params.ProcessID = c.id
	if err := s.register(c); err != nil {
		return nil, err
	}
	start := &call{again: true} // a second start with the same id is refused
	came := make(chan outcome, 1)
	start.done = func(result []byte, err error) { came <- outcome{result, err} }
	err = ctx.Err()
	if err == nil {
		err = s.link.start(start, wire.ProcessStart, params)
	}
	if err != nil {
		s.forget(c)
		return nil, cancelledOr(err)
	}
	select {
	case o := <-came:
		err = s.started(ctx, c, start, o)
	case <-ctx.Done():
		err = s.cancelStart(c, start, came)
	}
	if err != nil {
		return nil, refusal("spawn", launch.Argv[0], err)
	}
	return c, nil
}

// outcome is the answer to a call.
type outcome struct {
	result []byte
	err    error
}

// cancelledOr returns the error of a call that was not made.
func cancelledOr(err error) error {
	if _, typed := errors.AsType[*messages.Error](err); typed {
		return err
	}
	return cancelled(wire.ProcessStart, err)
}

// started takes the answer to a start. If there is no error, the process has been reported to its owner.
func (s *spawner) started(ctx context.Context, c *child, start *call, o outcome) error {
	var result wire.StartResult
	err := o.err
	switch {
	case err == nil:
		err = json.Unmarshal(o.result, &result)
		if err != nil || result.ProcessID != c.id {
			err = violation("its answer to a start is malformed or about another process")
			s.link.end(err)
			err = disconnected(err)
		}
	case start.resent && exists(err):
		err = s.confirm(ctx, c)
	}
	if err == nil && !start.resent && confined(c.launch) && (result.Enforced == nil || !result.Enforced.Level.AtLeast(demanded(c.launch.Sandbox.Confinement()))) {
		err = errLessSandbox // the server has ignored the sandbox
	}
	if err != nil {
		if _, refused := errors.AsType[*wire.Fault](err); refused || !s.link.mayHaveArrived(start) {
			s.forget(c)
			return err
		}
		c.withdraw()
		return mayRun(err)
	}
	c.pid = result.PID
	c.launch.Events(ptyio.Spawned{Child: c, Enforced: result.Enforced})
	go c.run()
	return nil
}

// cancelStart ends a start that is no longer wanted, and waits until it is known that nothing of it runs. If the server does not say so
// in time, the process is reported to its owner: as one that is being ended, and of which nobody knows more if nothing more is heard.
func (s *spawner) cancelStart(c *child, start *call, came chan outcome) error {
	if s.link.withdraw(start) {
		s.forget(c)
		return cancelled("spawn", context.Canceled)
	}
	c.terminate(0)
	timer := time.NewTimer(s.limits.cancel)
	defer timer.Stop()
	select {
	case o := <-came:
		if !exists(o.err) && s.link.life.Err() == nil {
			if err := s.started(s.link.life, c, start, o); err != nil {
				return cancelled("spawn", context.Canceled)
			}
			c.Abandon()
			return nil
		}
		came <- o // for below
	case <-timer.C:
	}
	c.launch.Events(ptyio.Spawned{Child: c})
	c.Abandon()
	go c.run()
	go func() {
		select {
		case o := <-came:
			err := o.err
			if exists(err) { // or its start is being cancelled
				err = s.confirm(s.link.life, c)
			}
			if _, refused := errors.AsType[*wire.Fault](err); refused {
				c.feed.stop(errNotStarted)
			}
		case <-c.ended:
		}
	}()
	return nil
}

// withdraw ends a process that is not returned to a caller.
func (c *child) withdraw() {
	c.launch.Events = func(e ptyio.Event) {
		if output, is := e.(ptyio.Output); is {
			output.Release()
		}
	}
	c.Abandon()
	go c.run()
}

// exists reports whether a start failed because the process was started before.
func exists(err error) bool {
	fault, is := errors.AsType[*wire.Fault](err)
	return is && fault.Code == wire.InvalidRequest && strings.Contains(fault.Message, "already exists")
}

// starting reports whether a read failed because the process is not started yet.
func starting(err error) bool {
	fault, is := errors.AsType[*wire.Fault](err)
	return is && fault.Code == wire.InvalidRequest && strings.Contains(fault.Message, "is starting")
}

// confirm finds out whether a start whose answer was lost has succeeded.
func (s *spawner) confirm(ctx context.Context, c *child) error {
	ctx, cancel := context.WithTimeout(ctx, s.limits.start)
	defer cancel()
	for {
		_, err := s.link.ask(ctx, &call{again: true}, wire.ProcessRead, wire.ReadParams{ProcessID: c.id, MaxBytes: new(uint64(0))})
		if err == nil {
			c.feed.resume()
			return nil
		}
		if !starting(err) {
			return err
		}
		timer := time.NewTimer(s.limits.start / 200)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return cancelled("spawn", ctx.Err())
		}
	}
}

func (s *spawner) register(c *child) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errClosed
	case len(s.children) >= maxChildren:
		return &messages.Error{Code: messages.ErrRuntimeFailure, Op: "spawn",
			Detail: fmt.Sprintf("%d processes run on the server already; end some", maxChildren)}
	}
	s.children[c.id] = c
	s.running.Add(1)
	return nil
}

// forget is called once for each child that was registered.
func (s *spawner) forget(c *child) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.children, c.id)
	s.running.Done()
}

// all lists the processes.
func (s *spawner) all() []*child {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*child, 0, len(s.children))
	for _, c := range s.children {
		list = append(list, c)
	}
	return list
}

// notified gives a notification to its process. It ignores unknown notifications, and those of processes that are no longer followed. An
// error means that the server breaks the protocol.
func (s *spawner) notified(method string, params []byte) error {
	switch method {
	case wire.ProcessOutput:
		m, err := wire.DecodeOutput(params)
		if err != nil {
			return violation("a notification of it, %s, is malformed: %s", method, err)
		}
		if !known(m.Stream) || len(m.Chunk) == 0 {
			return violation("a chunk of %d bytes belongs to the stream %.40q", len(m.Chunk), m.Stream)
		}
		return s.put(m.ProcessID, item{stream: m.Stream, bytes: m.Chunk, message: params, seq: m.Seq})
	case wire.ProcessExited:
		return notice(s, method, params, func(m *wire.ExitedParams) (string, item) {
			e := exit{code: m.ExitCode, known: true, status: m.Status, lost: clipped(m.Lost), denied: m.SandboxDenied != nil && *m.SandboxDenied,
				denial: m.Denial, limit: m.Limit}
			return m.ProcessID, item{kind: exited, exit: e, seq: m.Seq}
		})
	case wire.ProcessBackground:
		return notice(s, method, params, func(m *wire.BackgroundParams) (string, item) {
			return m.ProcessID, item{kind: background, count: int64(max(0, m.Count)), seq: m.Seq}
		})
	case wire.ProcessDrained, wire.ProcessClosed:
		return notice(s, method, params, func(m *wire.SeqParams) (string, item) {
			if method == wire.ProcessClosed {
				return m.ProcessID, item{kind: closed, seq: m.Seq}
			}
			return m.ProcessID, item{kind: drained, seq: m.Seq}
		})
	case wire.ProcessEnded:
		return notice(s, method, params, func(m *wire.EndedParams) (string, item) {
			return m.ProcessID, item{kind: ended, tree: m.Tree, seq: m.Seq}
		})
	}
	return nil
}

// notice reads a notification and gives it to the feed of its process.
func notice[T any](s *spawner, method string, params []byte, read func(*T) (string, item)) error {
	var m T
	if err := json.Unmarshal(params, &m); err != nil {
		return violation("a notification of it, %s, is malformed: %s", method, err)
	}
	return s.put(read(&m))
}

// put acknowledges the end of a process that is no longer followed: the server repeats the end if the connection broke before it had the
// first acknowledgement, and keeps the process until it has one.
func (s *spawner) put(id string, it item) error {
	if c := s.find(id); c != nil {
		return c.feed.put(it)
	}
	if it.kind == ended && len(id) <= maxName {
		s.link.acknowledge(id, it.seq)
	}
	return nil
}

func (s *spawner) find(id string) *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.children[id]
}

func (s *spawner) resumed() {
	for _, c := range s.all() {
		c.feed.resume()
	}
}

func (s *spawner) lost(err error) {
	for _, c := range s.all() {
		c.feed.stop(err)
	}
}

// Close implements ptyio.Spawner. If the server does not report in time that its processes have ended, Close gives up and returns an
// error.
func (s *spawner) Close() error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	if again {
		<-s.link.done
		return nil
	}
	for _, c := range s.all() {
		c.EndTree(ptyio.DefaultGrace)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.running.Wait()
	}()
	var err error
	timer := time.NewTimer(s.limits.close)
	defer timer.Stop()
	select {
	case <-over:
	case <-s.link.done:
	case <-timer.C:
		err = failed("close", fmt.Sprintf("the server has not reported the end of %d processes", len(s.all())))
	}
	for _, c := range s.all() {
		c.Abandon()
	}
	s.link.close()
	<-over
	return err
}

// Can implements ptyio.Spawner. The server answered when it looked up the confinement. Only a start shows whether it can enforce the
// limits.
func (s *spawner) Can(launch ptyio.Launch) (messages.Enforcement, error) {
	enforced := messages.Enforcement{Level: messages.AssuranceNone}
	if e, ours := launch.Sandbox.(enclosure); ours {
		enforced = e.enforced
	}
	if launch.Executions != nil {
		enforced = ptyio.Unseen(enforced, "a server shows no other machine what its programs execute")
	}
	return enforced, s.refuses(launch)
}

// confined reports whether a launch must not run without a sandbox.
func confined(launch ptyio.Launch) bool {
	return launch.Sandbox != nil && launch.Sandbox.Confinement().Policy.Confined()
}

// refuses returns an error if the server would ignore a part of the launch: a server ignores the parameters that it does not know.
func (s *spawner) refuses(launch ptyio.Launch) error {
	if len(launch.Inherit) > 0 {
		return unsupported("spawn", "descriptors cannot be passed to another machine; pass files by their paths")
	}
	if s.link.flow() {
		return nil
	}
	const advice = "; use a server of execbus"
	switch {
	case confined(launch):
		return errNoSandbox
	case launch.Limits != messages.Limits{}:
		return unsupported("spawn", "the server is not known to enforce limits"+advice)
	case launch.Merged && !launch.TTY:
		return unsupported("spawn", "the server cannot merge output and errors; keep them apart, or use a server of execbus")
	case launch.OnLeaderExit == messages.LeaderExitKeepsTree:
		return unsupported("spawn", "the server is not known to keep background processes"+advice)
	}
	return nil
}

// request converts a launch to the parameters of process/start.
func (s *spawner) request(launch ptyio.Launch) (*wire.StartParams, error) {
	if err := launch.Check(); err != nil {
		return nil, err
	}
	if err := s.refuses(launch); err != nil {
		return nil, err
	}
	params := &wire.StartParams{Argv: launch.Argv, Cwd: wire.FileURI(launch.Dir), Env: map[string]string{},
		TTY: launch.TTY, PipeStdin: launch.OpenStdin && !launch.TTY}
	for _, entry := range launch.Env {
		if name, value, is := strings.Cut(entry, "="); is && name != "" {
			params.Env[name] = value
		}
	}
	if launch.Argv0 != "" {
		params.Arg0 = &launch.Argv0
	}
	params.Patches = launch.Argv0 == patchProgram && launch.Argv[0] == patchProgram
	if s.link.flow() {
		extend(params, launch)
	} else if launch.TTY {
		sized(params.Env, launch.Size)
	}
	return params, nil
}

// sized tells the size of a terminal to programs on a server that may not know it.
func sized(env map[string]string, size messages.Size) {
	size = size.OrDefault()
	for name, n := range map[string]uint16{"LINES": size.Rows, "COLUMNS": size.Cols} {
		if _, set := env[name]; !set {
			env[name] = strconv.Itoa(int(n))
		}
	}
}

// extend adds what only servers of execbus understand.
func extend(params *wire.StartParams, launch ptyio.Launch) {
	if launch.TTY {
		params.Size, params.Unattended = new(wireSize(launch.Size)), launch.Unattended
	}
	params.Merged, params.OnLeaderExit = launch.Merged, cmp.Or(launch.OnLeaderExit, messages.LeaderExitEndsTree)
	if launch.Grace != nil {
		params.GraceMs = new(milliseconds(*launch.Grace))
	}
	if (launch.Limits != messages.Limits{}) {
		params.Limits = &launch.Limits
	}
	if launch.Sandbox != nil {
		params.Sandbox = new(wireSandbox(launch.Sandbox.Confinement()))
	}
}

// enclosure is a confinement whose paths the server has looked up. The server keeps the result until the session ends.
type enclosure struct {
	ptyio.Enclosure
	spawner  *spawner
	enforced messages.Enforcement
	keeps    *wire.Kept // nil: the server has not said
}

// Keeps implements ptyio.Keeper. Of a server that does not say what it keeps, only the denied paths are known, as they are written.
func (e enclosure) Keeps() (unwritable, unreadable []string) {
	if e.keeps == nil {
		return nil, slices.Clone(e.Confinement().Policy.DeniedReads)
	}
	return slices.Clone(e.keeps.Unwritable), slices.Clone(e.keeps.Unreadable)
}

// Enclose implements ptyio.Spawner.
func (s *spawner) Enclose(ctx context.Context, c ptyio.Confinement) (ptyio.Enclosure, error) {
	if err := c.Policy.Check(); err != nil {
		return nil, err
	}
	e := enclosure{Enclosure: ptyio.Enclosed(c), spawner: s, enforced: messages.Enforcement{Level: messages.AssuranceNone}}
	if !c.Policy.Confined() {
		return e, nil
	}
	if (c.Proxy != nil || c.Policy.Network != nil) && !c.Policy.NetworkAccess {
		return nil, unsupported("spawn", "commands on another machine cannot be given some hosts only; give them no network or all of it")
	}
	if !s.link.flow() {
		return nil, errNoSandbox
	}
	found, err := about[wire.EncloseResult](ctx, s.link, wire.EnvironmentEnclose, wire.EncloseParams{Sandbox: wireSandbox(c)})
	switch {
	case err != nil:
		return nil, err
	case found.Error != nil:
		return nil, found.Error
	case found.Enforced == nil || !found.Enforced.Level.AtLeast(demanded(c)):
		return nil, errLessSandbox
	}
	e.enforced, e.keeps = *found.Enforced, found.Keeps
	return e, nil
}

// Widen asks the server anew.
func (e enclosure) Widen(ctx context.Context, more messages.AdditionalPermissions, dir string) (ptyio.Enclosure, error) {
	c := e.Confinement()
	c.Additional, c.AdditionalDir = &more, dir
	return e.spawner.Enclose(ctx, c)
}

var (
	errNoSandbox = &messages.Error{Code: messages.ErrUnsupported, Op: "spawn", Subject: "sandbox",
		Detail: "the server is not known to enforce sandbox policies; use a server of execbus"}

	errLessSandbox = &messages.Error{Code: messages.ErrUnsupported, Op: "spawn", Subject: "sandbox",
		Detail: "the server enforces less than the sandbox policy demands; use another server, or accept less"}
)

// demanded returns the least assurance that a confinement must get from any server.
func demanded(c ptyio.Confinement) messages.Assurance {
	if c.Least == "" {
		return messages.AssuranceConfined
	}
	return c.Least
}

// wireSandbox writes a confinement as the protocol has it.
func wireSandbox(c ptyio.Confinement) wire.Sandbox {
	s := wire.SandboxOf(c.Policy, c.Dir, c.TempDir)
	s.Least, s.Additional = c.Least, c.Additional
	if c.AdditionalDir != "" {
		s.Cwd = new(wire.FileURI(c.AdditionalDir))
	}
	return s
}
