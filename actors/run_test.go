package actors

import (
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/probe"
)

func TestARunKeepsItsStreamsApart(t *testing.T) {
	bothSpawners(t, func(t *testing.T, h *host) {
		s := h.open(nil)
		got := must[*messages.RunResult](h, s.supervisor, messages.RunCommand{Argv: []string{"bash", "-c", "echo out; echo err >&2; cat; exit 9"}})
		if string(got.Stdout) != "out\n" || string(got.Stderr) != "err\n" || string(got.Aggregated) != "out\nerr\n" || got.ExitCode != 9 ||
			got.Status != messages.StatusExited(9) || got.TimedOut || got.Cancelled || got.Omitted != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestARunThatTakesTooLongIsKilledAndKeepsItsOutput(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	var got *messages.RunResult
	for timeout := 200 * time.Millisecond; got == nil || len(got.Stdout) == 0 && timeout < patience; timeout *= 2 { // until it could say something
		got = must[*messages.RunResult](h, s.supervisor, messages.RunCommand{Timeout: &timeout,
			Argv: []string{"bash", "-c", "trap '' TERM; sleep 1000 & echo begun; wait"}})
	}
	if !got.TimedOut || got.ExitCode != messages.ExitCodeRunTimedOut || string(got.Stdout) != "begun\n" || got.Status.Kind != messages.ExitSignal {
		t.Errorf("%+v", got)
	}
	end := s.ended(got.Process)
	if end.Cause != messages.CauseTerminated || end.By != messages.TerminatedByTimeout || end.Tree.Ended != 1 {
		t.Errorf("%v, tree %+v", &end.EndRecord, end.Tree)
	}
	must[*messages.RunResult](h, s.supervisor, messages.RunCommand{Argv: []string{"true"}})
}

func TestACancelledRunIsEndedAndSaysSo(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	call := s.call(messages.RunCommand{Argv: []string{"bash", "-c", "echo begun; " + idle}})
	id := probe.Expect[messages.ExecStarted](s.events, patience, nil).Process
	s.said(id, "begun")
	call.cancel()
	reply, err := call.reply()
	if got, ok := reply.(*messages.RunResult); err != nil || !ok || !got.Cancelled || got.ExitCode != messages.ExitCodeRunCancelled || string(got.Stdout) != "begun\n" {
		t.Errorf("%+v, %v", reply, err)
	}
	if end := s.ended(id); end.Cause != messages.CauseTerminated || end.By != messages.TerminatedByUser {
		t.Errorf("%v", &end.EndRecord)
	}
}

func TestARunThatEndsBeforeItBegan(t *testing.T) {
	o, entered, _ := gatedSpawn()
	h := newHost(t, o)
	s := h.open(nil)
	cancelled := s.call(messages.RunCommand{Argv: []string{"true"}})
	<-entered
	cancelled.cancel()
	reply, err := cancelled.reply()
	if got, ok := reply.(*messages.RunResult); err != nil || !ok || !got.Cancelled || got.ExitCode != messages.ExitCodeRunCancelled || got.Status != messages.StatusNone() {
		t.Errorf("%+v, %v", reply, err)
	}
	reply, err = s.call(messages.RunCommand{Argv: []string{"true"}, Timeout: new(50 * time.Millisecond)}).reply()
	if got, ok := reply.(*messages.RunResult); err != nil || !ok || !got.TimedOut || got.ExitCode != messages.ExitCodeRunTimedOut {
		t.Errorf("%+v, %v", reply, err)
	}
	terminated := s.call(messages.RunCommand{Argv: []string{"true"}})
	<-entered
	<-entered
	if _, err := s.terminate(s.list()[0].Process); err != nil {
		t.Error(err)
	}
	_, err = terminated.reply()
	wantError(t, "a run that was terminated", err, messages.ErrProcessEnded)
	_, err = ask[any](h, s.supervisor, messages.RunCommand{})
	wantError(t, "a run of nothing", err, messages.ErrInvalidRequest)
	for range 3 {
		probe.Expect[messages.ExecEnded](s.events, patience, nil)
	}
}

func TestARunIsBoundedUnlessItIsFull(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	const all = 3 << 20
	run := messages.RunCommand{Script: "head -c 3145728 /dev/zero; echo err >&2", Shell: "sh", Timeout: new(time.Duration), Full: true}
	full := must[*messages.RunResult](h, s.supervisor, run)
	if len(full.Stdout) != all || full.Omitted != 0 || full.TimedOut || len(full.Aggregated) != all+4 {
		t.Errorf("full: %d, %d omitted, %d aggregated", len(full.Stdout), full.Omitted, len(full.Aggregated))
	}
	run.Timeout, run.Full = nil, false
	bounded := must[*messages.RunResult](h, s.supervisor, run)
	if len(bounded.Stdout) != messages.MaxRunOutput || bounded.Omitted != all-messages.MaxRunOutput || string(bounded.Stderr) != "err\n" ||
		len(bounded.Aggregated) != messages.MaxRunOutput || !strings.HasSuffix(string(bounded.Aggregated), "\x00err\n") {
		t.Errorf("bounded: %d, %d omitted, %d aggregated", len(bounded.Stdout), bounded.Omitted, len(bounded.Aggregated))
	}
}

func TestABackgroundChildDoesNotHoldARun(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	got := must[*messages.RunResult](h, s.supervisor, messages.RunCommand{Argv: []string{"bash", "-c", "echo kept; sleep 1000 & exit 2"}})
	if got.ExitCode != 2 || string(got.Stdout) != "kept\n" {
		t.Errorf("%+v", got)
	}
}
