package actors

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/tests/probe"
)

// echoes are patches whose program says back what it is told. A patch's text is a list of words: what happens to it.
type echoes struct {
	program string             // a script; empty: cat
	reads   chan chan struct{} // when it is about to be read; nil: nobody looks
	writes  chan chan struct{} // when it is about to be written
}

type echo struct {
	*echoes
	text string
	plan shared.PatchPlan
}

func (p *echoes) Launch(context.Context, ptyio.Resolver) (ptyio.Launch, error) {
	if p.program == "none" {
		return ptyio.Launch{}, &messages.Error{Code: messages.ErrUnsupported, Op: "apply patch", Detail: "there is no program; find another machine"}
	}
	script := p.program
	if script == "" {
		script = "exec cat"
	}
	return ptyio.Launch{Argv: []string{"/bin/sh", "-c", script}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}}, nil
}

func (p *echoes) Parse(m messages.ApplyPatch, dir string) (shared.Patch, error) {
	if strings.Contains(m.Text, "malformed") {
		return nil, &messages.Error{Code: messages.ErrInvalidRequest, Op: "apply patch", Detail: "it is malformed; correct it"}
	}
	file := messages.FileChange{Path: dir + "/file", Kind: messages.ChangeUpdate, State: messages.StatePlanned, Overwrites: strings.Contains(m.Text, "over")}
	return &echo{p, m.Text, shared.PatchPlan{Files: []messages.FileChange{file}, Diff: m.Text, Summary: "Success: " + m.Text, Overwritten: []string{"one was there"}}}, nil
}

func (p *echoes) Recover(context.Context, ptyio.Resolver, shared.BeginPatchProgram) ([]string, error) {
	return nil, nil
}

func (e *echo) Read(program io.ReadWriter, _, _ []string) (shared.PatchPlan, error) {
	pass(e.reads)
	return e.plan, e.say(program, strings.Repeat("read "+e.text, 1000))
}

func (e *echo) Write(_ context.Context, _ ptyio.Resolver, program io.ReadWriter, _ shared.PatchJob, _ shared.BeginPatchProgram) ([]messages.FileChange, error) {
	pass(e.writes)
	files := []messages.FileChange{e.plan.Files[0]}
	if strings.Contains(e.text, "fails") {
		files[0].State = messages.StateRestored
		return files, errors.New("the disk is full")
	}
	err := e.say(program, "write")
	if files[0].State = messages.StateChanged; err != nil {
		files[0].State = messages.StateUncertain
	}
	return files, err
}

func (e *echo) say(program io.ReadWriter, text string) error {
	if _, err := fmt.Fprintln(program, text); err != nil {
		return err
	}
	got, err := bufio.NewReader(program).ReadString('\n')
	if err == nil && got != text+"\n" {
		err = fmt.Errorf("it said %.40q", got)
	}
	return err
}

// pass tells a test where a patch is, and waits until the test lets it go on.
func pass(gate chan chan struct{}) {
	if gate != nil {
		goes := make(chan struct{})
		gate <- goes
		<-goes
	}
}

func stops() chan chan struct{} { return make(chan chan struct{}) }

// patchSession opens a session that asks about patches if p does.
func patchSession(t *testing.T, p *planner, e *echoes, direct bool) *asker {
	t.Helper()
	return newAsker(t, p, hostOptions{patches: e, direct: direct}, nil)
}

func ran() *planner { return &planner{} }

func patchOf(text string) messages.ApplyPatch {
	return messages.ApplyPatch{Text: text, Call: "c1", Owner: "turn"}
}

func patched(t *testing.T, w waiting) *messages.PatchResult {
	t.Helper()
	reply, err := w.reply()
	if err != nil {
		t.Fatal(err)
	}
	return reply.(*messages.PatchResult)
}

func ofPatch[T messages.Event]() probe.Step {
	return probe.A(func(e T) bool { return e.From().Call == "c1" && e.From().Process == 0 })
}

func TestAPatchIsReadDecidedAboutAndWritten(t *testing.T) {
	for _, direct := range []bool{false, true} {
		p := ran()
		p.Decision = "run"
		s := patchSession(t, p, &echoes{}, direct)
		result := patched(t, s.call(patchOf("over")))
		if len(result.Files) != 1 || result.Files[0].State != messages.StateChanged || result.Files[0].Path != s.dir+"/file" || result.Summary != "Success: over" ||
			result.Call != "c1" || len(result.Overwritten) != 1 || result.WallTime <= 0 {
			t.Errorf("%+v", result)
		}
		probe.ExpectInOrder(s.events, patience, ofPatch[messages.ToolDecision](), ofPatch[messages.PatchStarted](), ofPatch[messages.PatchApplied]())
		if n := len(s.list()); n > 0 {
			t.Errorf("%d processes", n)
		}
	}
}

func TestAPatchThatCannotBeAppliedIsAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		text, program string
		want          messages.ErrorCode
		says          string
		started       bool
	}{
		"malformed":    {text: "malformed", want: messages.ErrInvalidRequest, says: "malformed"},
		"no program":   {program: "none", want: messages.ErrUnsupported, says: "another machine"},
		"it exits":     {program: "echo oh dear >&2; exit 3", want: messages.ErrRuntimeFailure, says: "oh dear"},
		"it talks":     {program: "while :; do echo nonsense; done", want: messages.ErrRuntimeFailure, says: "nonsense"},
		"it is killed": {program: "kill -9 $$", want: messages.ErrRuntimeFailure, says: "signal(9)"},
		"writing":      {text: "fails", want: messages.ErrRuntimeFailure, says: "disk is full", started: true},
		"no directory": {text: "x", program: "exec /does/not/exist", want: messages.ErrRuntimeFailure, says: "has ended"},
	} {
		t.Run(name, func(t *testing.T) {
			p := ran()
			p.Decision = "run"
			s := patchSession(t, p, &echoes{program: c.program}, false)
			_, err := s.call(patchOf(c.text)).reply()
			if e := wantError(t, "the patch", err, c.want); !strings.Contains(e.Error(), c.says) {
				t.Error(e)
			}
			failed := probe.Expect[messages.PatchFailed](s.events, patience, nil)
			if failed.Err.Code != c.want || len(probe.Of[messages.PatchStarted](s.events, nil)) != map[bool]int{true: 1}[c.started] {
				t.Errorf("%+v", failed)
			}
			if c.started && failed.Files[0].State != messages.StateRestored {
				t.Errorf("%+v", failed)
			}
		})
	}
}

func TestAPersonIsAskedAboutAPatch(t *testing.T) {
	s := patchSession(t, always(), &echoes{}, false)
	call := s.call(patchOf("a diff"))
	q := s.question()
	if q.Patch == nil || q.Patch.Diff != "a diff" || len(q.Patch.Files) != 1 || q.Call != "c1" || q.Process != 0 {
		t.Errorf("%+v", q)
	}
	if err := s.decide(q.ID, messages.Decision{Kind: messages.DecisionApproved}); err != nil {
		t.Fatal(err)
	}
	patched(t, call)
	probe.ExpectInOrder(s.events, patience, ofPatch[messages.ApprovalResolved](), ofPatch[messages.ToolDecision](), ofPatch[messages.PatchStarted](), ofPatch[messages.PatchApplied]())

	call = s.call(patchOf("another"))
	if q := s.question(); s.decide(q.ID, messages.Decision{Kind: messages.DecisionDenied, Rejection: "not that file"}) != nil {
		t.Fatal(q)
	}
	_, err := call.reply()
	if e := wantError(t, "denied", err, messages.ErrRejected); !strings.Contains(e.Detail, "not that file") {
		t.Error(e)
	}
	if failed := probe.Expect[messages.PatchFailed](s.events, patience, nil); failed.Files[0].State != messages.StatePlanned {
		t.Errorf("%+v", failed)
	}

	call = s.call(patchOf("abort"))
	behind := s.call(patchOf("behind"))
	s.answer(messages.DecisionAborted)
	_, err = call.reply()
	wantError(t, "aborted", err, messages.ErrAborted)
	_, err = behind.reply()
	wantError(t, "of the same turn", err, messages.ErrCancelled)
}

func TestACheckAsksNobodyAndWritesNothing(t *testing.T) {
	s := patchSession(t, always(), &echoes{}, false)
	check := patchOf("x")
	check.CheckOnly = true
	_, err := s.call(check).reply()
	if e := wantError(t, "a check", err, messages.ErrRejected); !strings.Contains(e.Detail, "because") {
		t.Error(e)
	}
	p := ran()
	p.Decision = "run"
	s = patchSession(t, p, &echoes{}, false)
	if result := patched(t, s.call(check)); result.Files[0].State != messages.StatePlanned {
		t.Errorf("%+v", result)
	}
	if n := len(probe.Of[messages.PatchStarted](s.events, nil)); n > 0 {
		t.Error("it was written")
	}
}

func TestACancelledPatch(t *testing.T) {
	t.Run("while it is read", func(t *testing.T) {
		p := ran()
		p.Decision = "run"
		s := patchSession(t, p, &echoes{program: "exec sleep 1000"}, false)
		call := s.call(patchOf("x"))
		awaitThat(t, "it is read", func() bool { return len(s.actors("/patch$")) == 1 })
		call.cancel()
		_, err := call.reply()
		wantError(t, "cancelled", err, messages.ErrCancelled)
	})
	t.Run("while it is asked about", func(t *testing.T) {
		s := patchSession(t, always(), &echoes{}, false)
		call := s.call(patchOf("x"))
		s.question()
		call.cancel()
		_, err := call.reply()
		wantError(t, "cancelled", err, messages.ErrCancelled)
		probe.ExpectInOrder(s.events, patience, ofPatch[messages.ApprovalResolved](), ofPatch[messages.PatchFailed]())
		s.waits(0)
	})
	t.Run("while it is written", func(t *testing.T) {
		p, e := ran(), &echoes{writes: stops()}
		p.Decision = "run"
		s := patchSession(t, p, e, false)
		call := s.call(patchOf("x"))
		goes := <-e.writes
		call.cancel()
		closing := s.call(protocol.CloseSession{By: messages.TerminatedBySessionClose})
		must[Stats](s.host, s.runtime, GetStats{})
		if closing.answered(time.Millisecond) {
			t.Error("the session was closed while a patch was written")
		}
		close(goes)
		if result := patched(t, call); result.Files[0].State != messages.StateChanged {
			t.Errorf("%+v", result)
		}
		if _, err := closing.reply(); err != nil {
			t.Error(err)
		}
	})
}

func TestAPatchWhoseProgramHangsWhileItWritesEndsWithTheSession(t *testing.T) {
	p := ran()
	p.Decision = "run"
	e := &echoes{program: "head -n 1; exec sleep 1000", writes: stops()}
	s := newAsker(t, p, hostOptions{patches: e, patience: shared.Patience{End: 50 * time.Millisecond}}, nil)
	call := s.call(patchOf("x"))
	close(<-e.writes)
	call.cancel()
	_, err := call.reply()
	if err == nil || !strings.Contains(err.Error(), "look at what may be changed: ") {
		t.Error(err)
	}
	if failed := probe.Expect[messages.PatchFailed](s.events, patience, nil); failed.Files[0].State != messages.StateUncertain {
		t.Errorf("%+v", failed)
	}
}

// A patch that is being written is finished, and who ends its owner waits for that, as for a process.
func TestTheEndOfAnOwnerWaitsForThePatchThatIsWritten(t *testing.T) {
	p, e := ran(), &echoes{writes: stops()}
	p.Decision = "run"
	s := patchSession(t, p, e, false)
	call := s.call(messages.ApplyPatch{Text: "x", Owner: "turn"})
	goes := <-e.writes
	ending := s.call(protocol.EndOwner{Owner: "turn"})
	if _, err := s.call(protocol.EndOwner{Owner: "other"}).reply(); err != nil { // so the other request has come, too
		t.Error(err)
	}
	if ending.answered(time.Millisecond) {
		t.Error("the owner was ended while its patch was written")
	}
	close(goes)
	if result := patched(t, call); result.Files[0].State != messages.StateChanged {
		t.Errorf("%+v", result)
	}
	if _, err := ending.reply(); err != nil {
		t.Error(err)
	}
}

func TestPatchesOfASessionAreAppliedOneAfterTheOther(t *testing.T) {
	p, e := ran(), &echoes{reads: stops()}
	p.Decision = "run"
	s := patchSession(t, p, e, false)
	first, second := s.call(patchOf("one")), s.call(patchOf("two"))
	goes := <-e.reads
	var more []waiting
	for range 62 {
		more = append(more, s.call(messages.ApplyPatch{Text: "more", Owner: "other"}))
	}
	_, err := s.call(patchOf("too many")).reply()
	wantError(t, "too many", err, messages.ErrLimitReached)
	if _, err := s.call(protocol.EndOwner{Owner: "other"}).reply(); err != nil {
		t.Error(err)
	}
	for _, call := range more {
		_, err := call.reply()
		wantError(t, "of an owner that was ended", err, messages.ErrCancelled)
	}
	select {
	case <-e.reads:
		t.Fatal("two at once")
	default:
	}
	close(goes)
	patched(t, first)
	close(<-e.reads)
	patched(t, second)
}

func TestAPatchIsAnsweredWhenItsActorOrTheApprovalActorCrashes(t *testing.T) {
	t.Run("its own", func(t *testing.T) {
		s := patchSession(t, always(), &echoes{}, false)
		call := s.call(patchOf("x"))
		s.question()
		s.system.Send(s.actors("/patch$")[0], deliberate{})
		_, err := call.reply()
		wantError(t, "crashed", err, messages.ErrRuntimeFailure)
		probe.ExpectInOrder(s.events, patience, ofPatch[messages.PatchFailed]())
	})
	t.Run("that of approvals", func(t *testing.T) {
		s := patchSession(t, always(), &echoes{}, false)
		call := s.call(patchOf("x"))
		s.question()
		s.system.Send(s.actors("/approval$")[0], deliberate{})
		_, err := call.reply()
		wantError(t, "nobody answers", err, messages.ErrRejected)
	})
	t.Run("the session's", func(t *testing.T) {
		s := patchSession(t, always(), &echoes{}, false)
		call := s.call(patchOf("x"))
		s.question()
		crashSupervisor(s.talk)
		_, err := call.reply()
		wantError(t, "no session", err, messages.ErrClosed)
	})
}

func TestARuntimeWithoutPatchesRefusesThem(t *testing.T) {
	_, err := newAsker(t, always(), hostOptions{}, nil).call(patchOf("x")).reply()
	wantError(t, "no patches", err, messages.ErrUnsupported)
}
