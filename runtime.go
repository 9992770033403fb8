package execbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/execbus/execbus/actors"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/network"
	"github.com/execbus/execbus/patch/writer"
	"github.com/execbus/execbus/policy/rules"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// Defaults of Options.
const (
	// DefaultRuntimeMaxProcesses is how many processes all sessions of a runtime may have together.
	DefaultRuntimeMaxProcesses = 1024
)

// Options of a runtime. The zero value is useful.
type Options struct {
	// Logger gets all records of the runtime. Starts and ends of processes, and decisions about them, have the level Debug;
	// refusals Info; survivors and failures of single processes Warn; failures that affect more, such as a dead warden or a crashed
	// actor, Error. Nil means that nothing is logged. One goroutine calls the handler, in order, and nothing waits for it. Records
	// are dropped while 1,024 wait, and all are after a panic; Stats counts them. Shutdown gives the handler a second to take the
	// waiting records.
	Logger *slog.Logger
	// Spawner starts the children. Nil means the platform's own: a warden on Linux. The runtime closes it.
	Spawner ptyio.Spawner
	// StateDir is a directory in which the runtime records its processes, in case it is killed together with its warden. The
	// next runtime of the same user with the same directory ends those processes; see package sandbox. Without a StateDir they
	// live on. The path must be absolute, and no other user may write there; the runtime creates a missing directory. It also has
	// the journal of patches, which is in ~/.local/state/execbus otherwise; no command may change that.
	StateDir string
	// Warden is the executable that becomes the warden, for hosts that cannot be executed again; it must import the same
	// version of execbus. Empty means the host's own. WardenEnvironment says which part of the host's environment the warden
	// starts with. Commands never see the warden's environment.
	Warden            string
	WardenEnvironment messages.EnvironmentPolicy
	// Program is the path of the program execbus (cmd/execbus), by which the git of commands that may talk to named hosts reaches
	// these over ssh: "execbus connect". Such commands must be able to execute it. Empty means the one in the host's PATH, if there
	// is one when the runtime starts; without it git's ssh reaches nothing.
	Program string
	// MaxProcesses bounds the processes of all sessions together; zero means DefaultRuntimeMaxProcesses.
	MaxProcesses int
	// Rules are the places of the rule files, from low to high precedence. They are read once, at the start. A file with an error
	// has no effect, and the others are still read: see Runtime.RuleErrors.
	Rules []rules.Layer
	// AmendmentFile gets the rules that people add by their answers. A file in a directory of Rules is read by the next runtime, too.
	// Without an AmendmentFile such rules last as long as the runtime. Start creates the file. No command may create or change it,
	// nor a file or a directory of Rules.
	AmendmentFile string
	// Spool keeps all output of processes in files. Without a Spool.Dir the middle of a long output cannot be read again.
	Spool SpoolOptions
	// Audit records what happens in a file. Without an Audit.File nothing does.
	Audit AuditOptions
	// MeterProvider and TracerProvider are OpenTelemetry's; nil means its global ones. No label carries an id, an
	// argument or a path. Another goroutine calls them, under the rules of Logger.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider

	patience patience               // tests set it
	internet func(*network.Options) // tests set what stands for it; nil: nothing does
}

// withDefaults fills in the defaults.
func (o Options) withDefaults() (Options, error) {
	if o.MaxProcesses < 0 {
		return o, badOption("Options.MaxProcesses", o.MaxProcesses, "use a positive number, or 0 for the default")
	}
	if o.MaxProcesses == 0 {
		o.MaxProcesses = DefaultRuntimeMaxProcesses
	}
	if o.Program != "" && !filepath.IsAbs(o.Program) {
		return o, &messages.Error{Code: messages.ErrInvalidRequest, Op: "configure", Subject: "Options.Program", Detail: fmt.Sprintf("%q is relative; use an absolute path", o.Program)}
	}
	o.patience = o.patience.withDefaults()
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	return o, nil
}

func badOption(field string, value any, advice string) error {
	return &messages.Error{Code: messages.ErrInvalidRequest, Op: "configure", Subject: field,
		Detail: fmt.Sprintf("%v is out of range; %s", value, advice)}
}

// Runtime is the one thing a host starts and shuts down. Its methods are safe for concurrent use.
type Runtime struct {
	system *actors.System
	around actors.Dependencies
	actor  *actors.PID

	patience      patience
	logs, metrics *hostcode.Queue

	ruleErrors []error
	// sessions are the open ones by their ids. They are looked up by callers, who must not wait for an actor.
	sessions sync.Map

	spools    spools
	audit     *auditor       // nil: nothing is recorded
	program   string         // for commands that may talk to named hosts
	proxies   sync.WaitGroup // what the networks of sessions still do
	recorders sync.WaitGroup

	freeing sync.Once
	freed   chan struct{} // closed when the spawner has ended, with spawnerErr
	// spawnerErr is the error of the spawner's Close, or of the end of the audit log.
	spawnerErr error
}

// Start starts a runtime and, on Linux, its warden: see "The warden" in the package doc. If the warden does not start, Start fails
// with the warden's output, so that no command has to wait and fail for it.
func Start(options Options) (*Runtime, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Runtime{freed: make(chan struct{}), patience: options.patience, logs: hostcode.NewQueue(), metrics: hostcode.NewQueue()}
	if err := r.start(options); err != nil {
		if end := r.audit.end(); end != nil {
			err = errors.Join(err, end)
		}
		hostcode.CloseAll(r.patience.flush, r.logs, r.metrics)
		return nil, err
	}
	return r, nil
}

func (r *Runtime) start(options Options) error {
	telemetry, err := options.newTelemetry(r.metrics)
	if err != nil {
		return err
	}
	r.around = actors.Dependencies{Bus: bus.New(bus.Options{}), Spawner: options.Spawner, Logger: newHostLogger(options.Logger, r.logs),
		MaxProcesses: options.MaxProcesses, Telemetry: telemetry, AmendmentFile: options.AmendmentFile, Protected: options.ruleFiles(), Patches: &patches{journals(options.StateDir)}}
	r.program = findProgram(options.Program)
	r.around.NewNetwork = func(o actors.NetworkOptions) actors.Network { return r.newNetwork(o, options.internet) }
	if dir := journals(options.StateDir); options.StateDir != "" { // the usual one is protected anyway
		_, _ = writer.OpenJournal(dir) // it is made now, because nothing can be while commands could make it, too; an error is one of the first patch
		r.around.Protected = append(r.around.Protected, dir)
	}
	if r.spools, err = newSpools(options.Spool); err != nil {
		return err
	}
	r.around.Spools = r.spools
	if dir := r.spools.Dir(); dir != "" {
		r.around.Protected = append(r.around.Protected, dir)
	}
	if err := r.startAudit(options.Audit); err != nil {
		return err
	}
	started := make(chan error, 1)
	if r.around.Spawner != nil {
		started <- nil
	} else {
		if r.around.Spawner, err = sandbox.New(sandbox.Options{StateDir: options.StateDir, Warden: options.Warden,
			WardenEnvironment: options.WardenEnvironment, Lost: r.wardenLost, Recovered: r.recovered, Notice: r.notice}); err != nil {
			return err
		}
		go func(spawner ptyio.Spawner) { started <- ready(spawner) }(r.around.Spawner)
	}
	if len(options.Rules) > 0 { // while the warden starts
		r.around.Rules, r.ruleErrors = rules.Load(options.Rules)
	}
	if err := <-started; err != nil {
		_ = closeSpawner(r.around.Spawner) // a warden that has not started leaves nothing behind
		return err
	}
	for _, err := range r.ruleErrors {
		r.around.Logger.Warn("a rule file was not read", "reason", err.Error())
	}
	r.system = actors.NewSystem(r.around.Logger)
	if r.actor, err = actors.StartRuntime(r.system, r.around); err != nil {
		return errors.Join(err, closeSpawner(r.around.Spawner))
	}
	return nil
}

// ruleFiles returns the absolute paths of the files and directories that rules come from: no command may write its own rules.
func (o Options) ruleFiles() (paths []string) {
	for _, layer := range o.Rules {
		paths = append(append(paths, layer.Dir), layer.Files...)
	}
	paths = slices.DeleteFunc(append(paths, o.AmendmentFile), func(path string) bool { return path == "" })
	for i, path := range paths {
		if full, err := filepath.Abs(path); err == nil {
			paths[i] = full
		}
	}
	if o.AmendmentFile != "" { // it is made now, because nothing can be while commands could make it, too
		_ = os.MkdirAll(filepath.Dir(o.AmendmentFile), 0o700)
		if file, err := os.OpenFile(o.AmendmentFile, os.O_WRONLY|os.O_CREATE|syscall.O_NONBLOCK, 0o600); err == nil {
			_ = file.Close()
		}
	}
	return paths
}

// RuleErrors lists the rule files without effect, because they could not be read or understood, with file and line. A host
// should show them: such a file may hold a rule that forbids something.
func (r *Runtime) RuleErrors() []error { return slices.Clone(r.ruleErrors) }

func (r *Runtime) wardenLost(lost sandbox.WardenLost) {
	r.around.Logger.Error("the warden died", "pid", lost.PID, "status", lost.Status.String(), "children", lost.Children,
		"ended", lost.Tree.Ended, "survivors", lost.Tree.Survivors, "output", lost.Output)
	r.around.Bus.Publish(messages.ExecNotice{Origin: messages.Origin{At: time.Now()},
		Text: fmt.Sprintf("the warden (pid %d) died, and %d commands with it: %s", lost.PID, lost.Children, lost.Status)})
}

func (r *Runtime) recovered(report messages.TreeReport) {
	r.around.Logger.Warn("a killed runtime had left processes behind", "ended", report.Ended, "survivors", report.Survivors)
}

// notice tells the people who run the host.
func (r *Runtime) notice(text string) {
	r.around.Logger.Warn(text)
	r.around.Bus.Publish(messages.ExecNotice{Origin: messages.Origin{At: time.Now()}, Text: text})
}

// Refresh reads again the attributes that commands inherit from this process: umask, limits, niceness,
// affinity, cgroup, OOM score. Otherwise the values may be up to a second old. Attributes that give rights
// need no Refresh, because the runtime reads them before each start: users, groups, capabilities, no_new_privs, seccomp
// filters, root directory and namespaces. If a spawner of the host's own has a method Refresh, that is called.
func (r *Runtime) Refresh() {
	if spawner, ok := r.around.Spawner.(interface{ Refresh() }); ok {
		spawner.Refresh()
	}
}

// Stats counts what a runtime has done.
type Stats struct {
	Sessions  int                       // open now
	Processes int                       // live now
	Started   uint64                    // were allowed to start
	Ended     map[messages.Cause]uint64 // have ended, by cause
	Records   int64                     // bytes of memory behind the output of ended processes in all sessions
	Hanging   int                       // abandoned calls of the spawner that have not returned
	Bus       bus.Stats
	Dropped   Dropped
}

// Dropped counts the calls that the host's own code missed, because it was too slow or has panicked.
type Dropped struct {
	Logs      uint64 // records for Options.Logger
	Telemetry uint64 // calls of instruments and spans
}

// Stats counts what the runtime has done so far. An end is counted a moment after it was published; all ends of a
// session are counted when its Close returns. After Shutdown the counts of the bus and of Dropped come with an error.
func (r *Runtime) Stats(ctx context.Context) (Stats, error) {
	counted, err := actors.Ask[actors.Stats](ctx, r.system, r.actor, actors.GetStats{})
	return Stats{
		Sessions: counted.Sessions, Processes: counted.Processes, Started: counted.Started, Ended: counted.Ended,
		Records: counted.Records, Hanging: counted.Hanging, Bus: r.around.Bus.Stats(),
		Dropped: Dropped{Logs: r.logs.Dropped(), Telemetry: r.metrics.Dropped()},
	}, plain(ctx, err, r.actor, errShutDown)
}

// OpenSession opens a session. The spawner's Resolver reads the environment of the machine where commands run. OpenSession fails if
// that fails, and if the named directory does not exist on that machine.
func (r *Runtime) OpenSession(options SessionOptions) (*Session, error) {
	named := options.Dir != "" // the host's own directory may not exist where commands run
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	if named {
		if err := checkDir(r.patience.answer, r.around.Spawner, "open session", options.Dir); err != nil {
			return nil, err
		}
	}
	base, err := environment(r.patience.answer, r.around.Spawner)
	if err != nil {
		return nil, err
	}
	if err := checkEnvironment(base, options.Environment); err != nil {
		return nil, err
	}
	s := &Session{runtime: r, id: cmp.Or(options.ID, messages.SessionID(uuid.NewString())), view: options.View}
	config := actors.SessionConfig{
		Session: s.id, Dir: options.Dir, Environment: options.Environment, Base: base, NoLoginShell: options.NoLoginShell,
		LongestPoll: options.LongestPoll, AnswerEarly: options.AnswerEarly, RecordRaw: options.RecordRaw,
		OutputTokens: options.OutputTokens, MaxProcesses: options.MaxProcesses,
		WarnProcesses: options.WarnProcesses, OnLeaderExit: options.OnLeaderExit, Protected: options.ProtectedProcesses, DeterministicIDs: options.DeterministicIDs,
		Approval: options.Approval, RulesUnreadable: options.RulesUnreadable, Executions: options.Executions, Sandbox: *options.Sandbox, LeastAssurance: options.LeastAssurance, Limits: options.Limits,
		ApprovalDeadline: options.ApprovalDeadline, OnDeadline: options.OnDeadline, Keyboard: options.Keyboard, Ended: s.ended,
	}
	if options.Approver != nil {
		config.Approver = func(ctx context.Context, question messages.Question) (messages.Decision, error) {
			decision, err := options.Approver.Approve(ctx, question)
			return messages.Clone(decision), err
		}
	}
	ctx := context.Background() // it is answered at once
	s.supervisor, err = actors.Ask[*actors.PID](ctx, r.system, r.actor, actors.OpenSession{Config: config})
	if err != nil {
		return nil, plain(ctx, err, r.actor, errShutDown)
	}
	if err := s.record(options.Record); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	r.sessions.Store(s.id, s)
	if s.over.Load() { // it has ended meanwhile
		r.sessions.Delete(s.id)
	}
	return s, nil
}

// Sessions are the sessions that are open now, in no order: for those who watch a host, such as package window.
func (r *Runtime) Sessions() []*Session {
	var all []*Session
	for _, s := range r.sessions.Range {
		all = append(all, s.(*Session))
	}
	return all
}

// Session is the open session of that name; nil if there is none.
func (r *Runtime) Session(id messages.SessionID) *Session {
	if s, open := r.sessions.Load(id); open {
		return s.(*Session)
	}
	return nil
}

// Events opens a subscription to the events of all sessions, those to come included. It ends with the runtime. See Session.Events.
func (r *Runtime) Events(watch Watch) (*bus.Subscription, error) {
	return r.around.Bus.Subscribe(bus.Filter{Kinds: watch.Kinds, Processes: watch.Processes, Calls: watch.Calls},
		bus.SubscribeOptions{Name: cmp.Or(watch.Name, "runtime"), Lossless: watch.Lossless})
}

// Shutdown ends all sessions, waits until every tree has ended, and then ends the subscriptions. If ctx ends first, the shutdown
// goes on, the error says what is left, and Shutdown may be called again. After a complete shutdown it does nothing.
func (r *Runtime) Shutdown(ctx context.Context) error {
	_, err := actors.Ask[actors.Done](ctx, r.system, r.actor, actors.CloseRuntime{})
	if err != nil && err == ctx.Err() {
		return unfinished(ctx, r.left(ctx))
	}
	// Any other error means that the actor has ended, by an earlier call or a crash.
	if err := r.system.Shutdown(ctx); err != nil {
		return err
	}
	r.freeing.Do(func() {
		go func() {
			defer close(r.freed)
			r.spawnerErr = closeSpawner(r.around.Spawner)
			r.proxies.Wait()
			r.spools.Close()
			if end := r.audit.end(); end != nil {
				r.spawnerErr = errors.Join(r.spawnerErr, end)
			}
			r.around.Bus.Close()
			r.recorders.Wait() // they end with their subscriptions
			hostcode.CloseAll(r.patience.flush, r.logs, r.metrics)
		}()
	})
	select {
	case <-r.freed:
		return r.spawnerErr
	default:
	}
	select {
	case <-r.freed:
		return r.spawnerErr
	case <-ctx.Done():
		return unfinished(ctx, "the spawner is still closing")
	}
}

// left says what has not ended.
func (r *Runtime) left(ctx context.Context) string {
	stats, err := r.Stats(context.WithoutCancel(ctx))
	if err != nil {
		return "the actors are still ending"
	}
	return fmt.Sprintf("%d processes in %d sessions have not ended", stats.Processes, stats.Sessions)
}

func unfinished(ctx context.Context, left string) error {
	return &messages.Error{Code: messages.ErrCancelled, Op: "shutdown", Detail: left + ": " + context.Cause(ctx).Error() + "; try again with more time",
		Like: messages.LikeOf(ctx.Err()),
		Hint: "a lossless subscription that nobody reads must be closed"}
}

// These types make up Options.Rules and Options.Spawner, for hosts that bring their own. Packages policy and ptyio say what
// they promise.
type (
	RuleLayer   = rules.Layer
	Spawner     = ptyio.Spawner
	Launch      = ptyio.Launch
	Child       = ptyio.Child
	ChildEvent  = ptyio.Event
	ChildExited = ptyio.Exited
	Confinement = ptyio.Confinement
	Enclosure   = ptyio.Enclosure
	Assurance   = messages.Assurance
	Enforcement = messages.Enforcement
)

// NewSpawner makes the platform's own spawner, for a host that wraps it in another. If its warden dies, only the owners of its
// commands are told.
func NewSpawner() (Spawner, error) { return sandbox.New(sandbox.Options{}) }

// Enforcement returns what would be enforced now for the commands of a session with these options. It opens no session. The error
// is that of the options, or the one with which the commands would be refused: if the machine cannot enforce enough of the sandbox
// policy, the error's Enforceable says how much the machine can enforce.
func (r *Runtime) Enforcement(ctx context.Context, options SessionOptions) (messages.Enforcement, error) {
	options, err := options.withDefaults()
	if err != nil {
		return messages.Enforcement{}, err
	}
	base, err := environment(r.patience.answer, r.around.Spawner)
	if err != nil {
		return messages.Enforcement{}, err
	}
	spawner := r.around.Spawner
	confinement := actors.Confinement(*options.Sandbox, options.LeastAssurance, options.Dir, base, r.around.Protected)
	enforced, err := hostcode.Call[messages.Enforcement]{Do: func(ctx context.Context) (messages.Enforcement, error) {
		launch := ptyio.Launch{Limits: options.Limits}
		if confinement.Policy.Confined() {
			enclosure, err := spawner.Enclose(ctx, confinement)
			if err != nil {
				return messages.Enforcement{}, err
			}
			defer enclosure.Release()
			launch.Sandbox = enclosure
		}
		return spawner.Can(launch)
	}}.Wait(ctx)
	if ctx.Err() != nil {
		return messages.Enforcement{}, cancelled(ctx)
	}
	return enforced, ours(err, "confine", "sandbox")
}
