package execbus_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/audit"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
)

// audited starts a runtime with an audit log, without a warden.
func audited(t *testing.T, options execbus.Options) (rt *execbus.Runtime, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "audit.jsonl")
	options.Audit.File = file
	if options.Spawner == nil {
		options.Spawner = must(sandbox.New(sandbox.Options{Direct: true}))
	}
	return newRuntime(t, options), file
}

// entry is an event in a log.
type entry map[string]any

func (e entry) is(kind messages.EventKind) bool { return e["kind"] == string(kind) }

// entries shuts a runtime down and reads its log.
func entries(t *testing.T, rt *execbus.Runtime, file string) (all []entry) {
	t.Helper()
	if err := rt.Shutdown(patient(t)); err != nil {
		t.Fatal(err)
	}
	report, err := audit.VerifyFile(file, func(l audit.Line) error {
		var e entry
		err := json.Unmarshal(l.Event, &e)
		all = append(all, e)
		return err
	})
	if err != nil || report.State != audit.Complete || report.Dropped != 0 || report.Unknown {
		t.Fatal(report, err)
	}
	return all
}

// TestTheAuditLogHasEachOperationOnce, of sessions at once: 10,000 inputs, in the order in which each process got them.
func TestTheAuditLogHasEachOperationOnce(t *testing.T) {
	const sessions, processes, inputs = 2, 2, 2500
	rt, file := audited(t, execbus.Options{})
	var group sync.WaitGroup
	for range sessions {
		session := openSession(t, rt, execbus.SessionOptions{})
		for range processes {
			group.Go(func() {
				cat, err := session.Start(patient(t), messages.ExecCommand{Argv: []string{"cat"}, OpenStdin: true})
				if err != nil {
					t.Error(err)
					return
				}
				for n := range inputs {
					if _, err := session.Write(patient(t), messages.WriteStdin{Process: cat.ID(), Bytes: bytes.Repeat([]byte("x"), 1+n%89), UntilTaken: true}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	group.Wait()
	lengths := map[string][]int{}
	count := map[string]int{}
	for _, e := range entries(t, rt, file) {
		count[fmt.Sprint(e["kind"])]++
		if e.is(messages.KindTerminalInteraction) {
			process := fmt.Sprint(e["session"], e["process"])
			lengths[process] = append(lengths[process], int(e["length"].(float64)))
		}
	}
	for _, kind := range []messages.EventKind{messages.KindToolDecision, messages.KindExecStarted, messages.KindExecEnded} {
		if count[string(kind)] != sessions*processes {
			t.Errorf("%d lines of the kind %s", count[string(kind)], kind)
		}
	}
	if len(lengths) != sessions*processes {
		t.Errorf("inputs of %d processes", len(lengths))
	}
	for process, all := range lengths {
		if len(all) != inputs {
			t.Fatalf("%d inputs of %s", len(all), process)
		}
		for n, length := range all {
			if length != 1+n%89 {
				t.Fatalf("input %d of %s has %d bytes", n, process, length)
			}
		}
	}
}

// TestTheAuditLogSaysWhoDecidedAndWhatHappened.
func TestTheAuditLogSaysWhoDecidedAndWhatHappened(t *testing.T) {
	dir := t.TempDir()
	ruleFile := filepath.Join(dir, "it.rules")
	if err := os.WriteFile(ruleFile, []byte("prefix_rule(pattern=['npm'], decision='forbidden')\nprefix_rule(pattern=['sleep'], decision='prompt')\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	somebody := &person{}
	rt, file := audited(t, execbus.Options{Rules: []execbus.RuleLayer{{Files: []string{ruleFile}, Trusted: true}}})
	session := openSession(t, rt, execbus.SessionOptions{Dir: dir, Approver: somebody})
	if _, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"npm", "install"}}); !errors.Is(err, messages.ErrRejected) {
		t.Fatal(err)
	}
	somebody.will(messages.DecisionDenied)
	if _, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"sleep", "99"}}); !errors.Is(err, messages.ErrRejected) {
		t.Fatal(err)
	}
	somebody.will(messages.DecisionApproved)
	sleep, err := session.Start(patient(t), messages.ExecCommand{Argv: []string{"sleep", "100"}, TTY: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Resize(patient(t), messages.Resize{Process: sleep.ID(), Size: messages.Size{Rows: 40, Cols: 100}}); err != nil {
		t.Fatal(err)
	}
	if err := session.Signal(patient(t), messages.Signal{Process: sleep.ID(), Signal: syscall.SIGUSR1}); err != nil {
		t.Fatal(err)
	}
	if err := session.Signal(patient(t), messages.Signal{Process: sleep.ID(), Signal: 99}); err == nil {
		t.Fatal("there is a signal 99")
	}
	if _, err := sleep.Wait(patient(t)); err != nil {
		t.Fatal(err)
	}
	all := entries(t, rt, file)
	find := func(what string, is func(e entry) bool) int {
		t.Helper()
		at := slices.IndexFunc(all, is)
		if at < 0 {
			t.Errorf("there is no line: %s", what)
		}
		return at
	}
	find("the decision of a rule", func(e entry) bool {
		return e.is(messages.KindToolDecision) && e["allowed"] == false && e["source"] == "rule" && e["rule"] == "npm ("+ruleFile+":1)" &&
			fmt.Sprint(e["argv"]) == "[npm install]" && strings.Contains(e["reason"].(string), "npm")
	})
	find("the question", func(e entry) bool {
		return e.is(messages.KindApprovalRequested) && fmt.Sprint(e["argv"]) == "[sleep 99]"
	})
	find("the answer", func(e entry) bool {
		return e.is(messages.KindApprovalResolved) && e["decision"] == "denied" && e["source"] == "user"
	})
	find("the refusal", func(e entry) bool {
		return e.is(messages.KindToolDecision) && e["allowed"] == false && e["decision"] == "denied" && e["rule"] == "sleep ("+ruleFile+":2)"
	})
	process := float64(sleep.ID())
	order := []int{
		find("the approval", func(e entry) bool {
			return e.is(messages.KindToolDecision) && e["process"] == process && e["decision"] == "approved"
		}),
		find("the start", func(e entry) bool {
			return e.is(messages.KindExecStarted) && e["process"] == process && e["tty"] == true && e["dir"] == dir
		}),
		find("the new size", func(e entry) bool { return e.is(messages.KindTerminalResized) && e["process"] == process }),
		find("the signal", func(e entry) bool {
			return e.is(messages.KindProcessSignaled) && e["process"] == process && e["signal"] == "SIGUSR1"
		}),
		find("the end", func(e entry) bool {
			return e.is(messages.KindExecEnded) && e["process"] == process && strings.Contains(fmt.Sprint(e["status"]), "SIGUSR1")
		}),
	}
	if !slices.IsSorted(order) {
		t.Error("the lines are not in the order of what happened:", order)
	}
	signals := 0
	for _, e := range all {
		if e.is(messages.KindProcessSignaled) {
			signals++
		}
	}
	if signals != 1 {
		t.Errorf("%d signals, and one was sent", signals)
	}
}

// TestAnAuditLogAnswersNoQuestions: it records them, but with nobody else there a command that needs an answer is rejected at once.
func TestAnAuditLogAnswersNoQuestions(t *testing.T) {
	rt, file := audited(t, execbus.Options{})
	session := openSession(t, rt, execbus.SessionOptions{Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}})
	if _, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"touch", "x"}}); !errors.Is(err, messages.ErrRejected) {
		t.Error(err)
	}
	if !slices.ContainsFunc(entries(t, rt, file), func(e entry) bool { return e.is(messages.KindToolDecision) && e["source"] == "absence" }) {
		t.Error("the decision is not in the log")
	}
}

// TestAnchorsArePublished, to every session: an anchor that a host keeps elsewhere shows later that the log still begins like this.
func TestAnchorsArePublished(t *testing.T) {
	rt, file := audited(t, execbus.Options{})
	session := openSession(t, rt, execbus.SessionOptions{})
	anchors := watch(t, session, execbus.Watch{Kinds: []messages.EventKind{messages.KindAuditAnchored}})
	if _, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"true"}}); err != nil {
		t.Fatal(err)
	}
	event, err := anchors.Next(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	anchor := event.(messages.AuditAnchored)
	if entries(t, rt, file); anchor.File != file || anchor.Lines < 2 {
		t.Error(anchor)
	}
	if r, err := audit.VerifyFile(file, nil, anchor.AuditHead); err != nil || r.State != audit.Complete {
		t.Error(r, err)
	}
	anchor.Digest = strings.Repeat("0", 64)
	if r, err := audit.VerifyFile(file, nil, anchor.AuditHead); err != nil || r.State != audit.Broken || r.Broken.Line != anchor.Lines {
		t.Error(r, err)
	}
}

// TestALogThatCannotBeOpened: the runtime does not start without it.
func TestALogThatCannotBeOpened(t *testing.T) {
	_, file := audited(t, execbus.Options{})
	for name, o := range map[string]execbus.AuditOptions{"in use": {File: file}, "relative": {File: "x"}, "mode": {OnFull: "later"}} {
		if rt, err := execbus.Start(execbus.Options{Audit: o}); err == nil {
			_ = rt.Shutdown(patient(t))
			t.Errorf("%s: it has started", name)
		}
	}
}

// TestAStartThatFailsClosesItsLog.
func TestAStartThatFailsClosesItsLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	if rt, err := execbus.Start(execbus.Options{Warden: "/does/not/exist", Audit: execbus.AuditOptions{File: file}}); err == nil {
		_ = rt.Shutdown(patient(t))
		t.Skip("skipped: this platform has no warden")
	}
	if r, err := audit.VerifyFile(file, nil); err != nil || r.State != audit.Complete || audit.Writing(file) {
		t.Error(r, err)
	}
}
