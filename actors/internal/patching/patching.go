package patching

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/actors/internal/system"
	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/ptyio"
)

// Config is what the actor of a patch is started with.
type Config struct {
	*shared.Session
	protocol.Caller
	messages.ApplyPatch
}

// Spawn starts the actor of a call, as a child of its session.
func Spawn(ctx *system.Context, c Config) *system.PID {
	p := &patching{Config: c, session: ctx.Self(), began: time.Now()}
	return ctx.Spawn("patch", p.receive)
}

type patching struct {
	Config
	ctx      *system.Context
	session  *system.PID
	settings *shared.Settings
	began    time.Time
	at       stage

	request  policy.Request
	snapshot policy.Snapshot
	patch    shared.Patch
	plan     shared.PatchPlan
	asking   protocol.Recipient // of the verdict
	unwanted *messages.Error    // why the patch is not wanted any more; nil if it is
	kill     context.CancelFunc // ends the work with the program
	gone     <-chan struct{}    // closed when the program that has read is gone, and what its sandbox had put in the place of protected names
	killed   bool               // while it wrote
}

// stage is how far a patch has come. It only goes forward.
type stage int

const (
	waiting stage = iota // for the session's patches before it
	reading
	asking
	writing
	over
)

type (
	// read is the end of reading. The program goes on to live.
	read struct {
		patch    shared.Patch
		plan     shared.PatchPlan
		request  policy.Request
		snapshot policy.Snapshot
		decision policy.Plan
		program  *program // nil with an error
		err      error
	}
	// wrote is the end of writing.
	wrote struct {
		files []messages.FileChange
		err   error
	}
	// closed says that the program that has read is gone.
	closed struct{}
	// killing says that a patch which is not wanted any more has been written for long enough.
	killing struct{}
)

// Discard ends the program of an actor that is gone.
func (m read) Discard() {
	if m.program != nil {
		shared.Abandon(m.program.child)
	}
}

func (p *patching) receive(ctx *system.Context) {
	p.ctx = ctx
	switch m := ctx.Message().(type) {
	case system.Started:
	case protocol.BeginPatch:
		p.settings = m.Settings
		p.advance(reading)
		p.work(p.reading())
	case read:
		p.read(m)
	case protocol.Verdict:
		if p.at == asking {
			p.answered(m)
		}
	case closed:
	case wrote:
		p.wrote(m)
	case killing:
		p.overdue()
	case protocol.CancelCall:
		p.end(&messages.Error{Code: messages.ErrCancelled, Op: "apply patch", Detail: "the call was cancelled"})
	case protocol.EndPatch:
		p.end(m.Why)
	case system.WorkFailed:
		p.failed(&messages.Error{Code: messages.ErrRuntimeFailure, Op: "apply patch", Detail: "the spawner did not answer: " + m.Err.Error()}, p.uncertain())
	case system.Stopping:
		p.failed(&messages.Error{Code: messages.ErrClosed, Op: "apply patch", Detail: "the session has ended; open another one"}, p.uncertain())
	case system.Crashing:
		p.failed(&messages.Error{Code: messages.ErrRuntimeFailure, Op: "apply patch", Detail: "its actor crashed"}, p.uncertain())
	default:
		ctx.Unexpected()
	}
}

func (p *patching) advance(to stage) { p.at = max(p.at, to) }

// work runs what may block. Only our own spawners are known to return.
func (p *patching) work(work func(context.Context) any) {
	if _, prompt := p.Spawner.(ptyio.Prompt); prompt {
		p.ctx.Go(work)
	} else {
		p.ctx.Detach(work)
	}
}

// end ends a patch that is not wanted any more, as soon as that leaves nothing half done.
func (p *patching) end(why *messages.Error) {
	if p.unwanted != nil || p.at == over {
		return
	}
	p.unwanted = why
	switch p.at {
	case waiting:
		p.failed(why, nil)
	case reading: // its end follows
		p.kill()
	case asking: // the verdict follows
		p.ctx.Send(p.session, protocol.Withdraw{Asker: p.asking})
	case writing:
		p.ctx.After(p.Patience.End, killing{})
	}
}

// overdue kills a program that does not finish. If even that does not end the writing, nobody waits for it any more.
func (p *patching) overdue() {
	switch {
	case p.at != writing:
	case p.killed:
		p.failed(p.unwanted, p.uncertain())
	default:
		p.killed = true
		p.kill()
		p.ctx.After(p.Patience.Spawn+2*p.Patience.End, killing{})
	}
}

// reading is the work that reads the files, matches the patch and decides about it. It must not touch the actor.
func (p *patching) reading() func(context.Context) any {
	session, settings, asked := p.Session, p.settings, p.ApplyPatch
	wanted, kill := context.WithCancel(context.Background())
	p.kill = kill
	return func(alive context.Context) any {
		stop := context.AfterFunc(alive, kill)
		defer stop()
		m := read{snapshot: policy.Snapshot{Approval: settings.Approval, Sandbox: settings.Sandbox, Rules: settings.Rules, Unreadable: settings.Unreadable,
			Dir: settings.Dir, TempDir: shared.TempDir(settings.Base)}}
		m.err = m.make(wanted, session, settings, asked)
		return m
	}
}

func (m *read) make(ctx context.Context, session *shared.Session, settings *shared.Settings, asked messages.ApplyPatch) (err error) {
	dir := filepath.Clean(settings.Within(asked.Dir))
	if m.patch, err = session.Patches.Parse(asked, dir); err != nil {
		return err
	}
	texts, err := Recover(ctx, session.Dependencies)
	if err != nil { // the patch may be to other files
		texts = append(texts, err.Error())
	}
	for _, text := range texts {
		session.Bus.Publish(messages.ExecNotice{Origin: messages.Origin{Session: session.SessionID, At: time.Now()}, Text: text})
	}
	program, err := start(ctx, session, settings, nil)
	if err != nil {
		return err
	}
	defer func() {
		if m.program = program; err != nil {
			program.failed, m.program = true, nil
			_ = program.Close()
		}
	}()
	var unwritable, unreadable []string
	if settings.Enclosing != nil {
		unreadable = slices.Clone(settings.Sandbox.DeniedReads)
		if enclosure, err := settings.Enclosing.Wait(ctx); err != nil {
			return err
		} else if keeper, is := enclosure.(ptyio.Keeper); is {
			unwritable, unreadable = keeper.Keeps()
		}
	}
	if m.plan, err = m.patch.Read(program, policy.WritableRoots(m.snapshot), unreadable); err != nil {
		return err
	}
	m.request = policy.Request{Argv: []string{policy.PatchName}, Dir: dir, CommandPolicy: messages.CommandPolicy{Justification: asked.Justification},
		Patch: &policy.Patch{Files: m.plan.Files, Roots: m.plan.Dirs, Kept: unwritable, Protected: session.Protected, Diff: m.plan.Diff}}
	for _, file := range m.plan.Files[:min(len(m.plan.Files), messages.MaxQuestionFiles)] {
		m.request.Argv = append(m.request.Argv, file.Path)
	}
	if err = m.widen(); err != nil {
		return err
	}
	m.decision = session.MakePlan(m.request, m.snapshot)
	return nil
}

// maxWidened bounds the directories outside of the sandbox that one patch may write in; the sandbox takes no more.
const maxWidened = 16

// widen names the directories that the sandbox would have to let the patch write in.
func (m *read) widen() error {
	m.request.Located = map[string]messages.Location{}
	var dirs []string
	for _, path := range m.request.Patch.Outside(m.snapshot) {
		at := m.plan.Located[path]
		m.request.Located[path] = at
		top := at // the directory that exists is what can be opened to the program; in one that is open, the name that is protected
		top.Below, top.Path = "", directoryOf(at)
		if name, _, _ := strings.Cut(at.Below, "/"); m.request.Patch.CanMakeIn(top.Path, m.snapshot) && at.Below != "" {
			top.Path, top.Below = filepath.Join(top.Path, name), name
		}
		m.request.Located[top.Path] = top
		dirs = append(dirs, top.Path)
	}
	slices.Sort(dirs)
	if dirs = slices.Compact(dirs); len(dirs) > 0 {
		m.request.SandboxPermissions = messages.PermissionsWithAdditional
		m.request.AdditionalPermissions = &messages.AdditionalPermissions{FileSystem: &messages.FileSystemPermissions{Write: dirs}}
	}
	if len(dirs) > maxWidened {
		return &messages.Error{Code: messages.ErrLimitReached, Op: "apply patch",
			Detail: "it changes files in more directories outside of the sandbox than can be asked about at once, 16; use several patches"}
	}
	return nil
}

// directoryOf is the directory of a location, without the names below it.
func directoryOf(at messages.Location) string {
	dir := at.Path
	for below := at.Below; below != "" && below != "."; below = filepath.Dir(below) {
		dir = filepath.Dir(dir)
	}
	return dir
}

// start starts a program under the session's policy, wider by the directories of a request.
func start(ctx context.Context, session *shared.Session, settings *shared.Settings, r *policy.Request) (*program, error) {
	launch, err := session.Patches.Launch(ctx, session.Spawner.Resolver())
	if err != nil {
		return nil, err
	}
	if settings.Enclosing != nil {
		if launch.Sandbox, err = settings.Enclosing.Wait(ctx); err != nil {
			return nil, err
		}
		if r != nil && r.AdditionalPermissions != nil {
			wider, err := shared.Enclosed(launch.Sandbox.Widen(ctx, *r.AdditionalPermissions, r.Dir))
			if err != nil {
				return nil, err
			}
			defer hostcode.Run(wider.Release)
			launch.Sandbox = wider
		}
	}
	return begin(ctx, session.Spawner, launch, session.Patience)
}

// Recover settles what hosts that were killed have left. See shared.Patches.
func Recover(ctx context.Context, d *shared.Dependencies) ([]string, error) {
	return d.Patches.Recover(ctx, d.Spawner.Resolver(), under(d))
}

// under starts programs under the confinements that a journal has recorded.
func under(session *shared.Dependencies) shared.BeginPatchProgram {
	return func(ctx context.Context, c ptyio.Confinement) (io.ReadWriteCloser, error) {
		launch, err := session.Patches.Launch(ctx, session.Spawner.Resolver())
		if err != nil {
			return nil, err
		}
		if c.Policy.Confined() {
			enclosure, err := shared.Enclosed(session.Spawner.Enclose(ctx, c))
			if err != nil {
				return nil, err
			}
			defer hostcode.Run(enclosure.Release)
			launch.Sandbox = enclosure
		}
		return begin(ctx, session.Spawner, launch, session.Patience)
	}
}

// read acts on the decision.
func (p *patching) read(m read) {
	if p.at != reading {
		m.Discard()
		return
	}
	p.patch, p.plan, p.request, p.snapshot = m.patch, m.plan, m.request, m.snapshot
	verdict := protocol.Verdict{Plan: m.decision, Source: m.decision.Source}
	switch {
	case m.err != nil:
		p.failed(cmp.Or(p.unwanted, protocol.AsError("apply patch", m.err)), nil)
		return
	case p.unwanted != nil:
		p.close(m.program)
		p.failed(p.unwanted, p.plan.Files)
		return
	case m.decision.Decision == policy.Ask && p.CheckOnly:
		verdict.Refusal = shared.Rejected("it needs approval: " + m.decision.Reason)
	case m.decision.Decision == policy.Ask:
		p.close(m.program)
		p.advance(asking)
		p.asking = recipient{p.ctx.System(), p.ctx.Self()}
		p.ctx.Send(p.session, protocol.Consult{Asker: p.asking, Request: p.request, Snapshot: p.snapshot, Plan: m.decision, Origin: p.origin(), Owner: p.Owner})
		return
	case m.decision.Decision == policy.Reject:
		verdict.Refusal = shared.Rejected(m.decision.Reason)
	}
	p.decided(verdict)
	switch {
	case verdict.Refusal != nil:
		p.close(m.program)
		p.refused(verdict.Refusal)
	case p.CheckOnly:
		p.close(m.program)
		p.done(p.plan.Files)
	default:
		p.write(m.program)
	}
}

// recipient is this actor, for the approval actor's answer.
type recipient struct {
	system *system.System
	self   *system.PID
}

func (r recipient) Answer(reply any) { r.system.Send(r.self, reply) }

// close ends the program that has read.
func (p *patching) close(program *program) {
	gone := make(chan struct{})
	p.gone = gone
	p.work(func(alive context.Context) any {
		defer close(gone)
		program.ctx = alive
		_ = program.Close()
		return closed{}
	})
}

func (p *patching) answered(m protocol.Verdict) {
	if p.unwanted != nil {
		p.failed(p.unwanted, p.plan.Files)
		return
	}
	p.decided(m)
	if m.Refusal != nil {
		p.refused(m.Refusal)
		return
	}
	p.write(nil)
}

// decided publishes a decision about the patch.
func (p *patching) decided(v protocol.Verdict) {
	d := messages.ToolDecision{Origin: p.origin(), Attempt: 1, Argv: p.request.Argv, Dir: p.request.Dir, Allowed: v.Refusal == nil, Source: v.Source,
		Decision: v.Decision, Unsandboxed: !p.snapshot.Sandbox.Confined(), Reason: v.Plan.Reason, Rule: v.Plan.Rule}
	level := slog.LevelDebug
	if v.Refusal != nil {
		d.Reason, level = v.Refusal.Detail, slog.LevelInfo
	}
	p.Bus.Publish(d)
	p.Telemetry.Decided(d)
	p.Logger.Log(context.Background(), level, "decision about a patch", "call", string(p.ApplyPatch.Call), "allowed", d.Allowed, "source", string(d.Source),
		"decision", string(d.Decision), "unsandboxed", d.Unsandboxed)
}

// write has a program write the files: the one that has read them, or, after a question, one whose sandbox is wider.
func (p *patching) write(program *program) {
	p.advance(writing)
	p.Bus.Publish(messages.PatchStarted{Origin: p.origin(), Dir: p.request.Dir, Files: p.plan.Files})
	session, settings, request, patch, planned := p.Session, p.settings, p.request, p.patch, p.plan.Files
	job := shared.PatchJob{Protected: request.Patch.Guarded(p.snapshot), Confinement: shared.Confinement(settings.Sandbox, settings.Least, settings.Dir, settings.Base, session.Protected)}
	job.Confinement.Additional, job.Confinement.AdditionalDir = request.AdditionalPermissions, request.Dir
	wanted, kill := context.WithCancel(context.Background())
	p.kill = kill
	gone := p.gone
	p.work(func(alive context.Context) any {
		defer context.AfterFunc(alive, kill)()
		defer kill()
		if program == nil {
			<-gone
			var err error
			if program, err = start(wanted, session, settings, &request); err != nil {
				return wrote{planned, err}
			}
		}
		program.ctx = wanted
		defer program.Close()
		files, err := patch.Write(alive, session.Spawner.Resolver(), program, job, under(session.Dependencies))
		program.failed = err != nil
		return wrote{files, err}
	})
}

func (p *patching) wrote(m wrote) {
	if p.at != writing {
		return
	}
	if m.err != nil {
		p.failed(protocol.AsError("apply patch", m.err), m.files)
		return
	}
	p.Bus.Publish(messages.PatchApplied{Origin: p.origin(), Files: m.files, Diff: p.plan.Diff})
	p.Logger.Debug("patch applied", "call", string(p.ApplyPatch.Call), "files", len(m.files))
	p.done(m.files)
}

func (p *patching) origin() messages.Origin {
	return messages.Origin{Session: p.SessionID, Call: p.ApplyPatch.Call, At: time.Now()}
}

// uncertain are the files if it is not known what has become of them.
func (p *patching) uncertain() []messages.FileChange {
	files := slices.Clone(p.plan.Files)
	if p.at == writing {
		for i := range files {
			files[i].State, files[i].Detail = messages.StateUncertain, "nobody could look at it"
		}
	}
	return files
}

func (p *patching) refused(why *messages.Error) { p.failed(why, p.plan.Files) }

// done answers with what was done.
func (p *patching) done(files []messages.FileChange) {
	p.answer(&messages.PatchResult{Call: p.ApplyPatch.Call, Files: files, Summary: p.plan.Summary, Overwritten: p.plan.Overwritten, WallTime: time.Since(p.began)})
}

// failed answers with an error, which names the files that may be changed.
func (p *patching) failed(err *messages.Error, files []messages.FileChange) {
	if p.at == over {
		return
	}
	const most = 8
	var names []string
	for _, file := range files {
		if file.State == messages.StateUncertain {
			names = append(names, messages.Visible(file.Path))
		}
	}
	if more := len(names) - most; more > 0 {
		names = append(names[:most], strconv.Itoa(more)+" more")
	}
	if len(names) > 0 {
		told := *err
		told.Detail += "; look at what may be changed: " + strings.Join(names, ", ")
		err = &told
	}
	p.Bus.Publish(messages.PatchFailed{Origin: p.origin(), Err: *err, Files: files})
	p.Logger.Log(context.Background(), levelOf(err), "patch failed", "call", string(p.ApplyPatch.Call), "code", string(err.Code))
	p.answer(err)
}

func levelOf(err *messages.Error) slog.Level {
	if err.Code == messages.ErrRuntimeFailure {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// answer ends the call, and the actor.
func (p *patching) answer(reply any) {
	if p.at == over {
		return
	}
	p.advance(over)
	if p.kill != nil {
		p.kill()
	}
	p.ctx.Send(p.session, protocol.Answered{Call: p.Caller.Call}) // before the answer, as a process does
	if p.Asker != nil {
		p.Asker.Answer(reply)
	}
	p.ctx.Stop(p.ctx.Self())
}
