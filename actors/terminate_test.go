package actors

import (
	"testing"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/probe"
)

func TestTerminatingAnswersTheCallsThatWait(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	initial := s.call(messages.ExecCommand{Argv: []string{"bash", "-c", "echo begun; " + idle}, Yield: new(messages.MaxYield)})
	id := probe.Expect[messages.ExecStarted](s.events, patience, nil).Process
	s.said(id, "begun")
	if _, err := s.terminate(id); err != nil {
		t.Error(err)
	}
	if got := initial.result(); got.Running || got.Status != messages.StatusSignaled(15) || string(got.Output) != "begun\n" {
		t.Errorf("the initial call: %+v", got)
	}
	id = s.exec(quick(idle)).Process
	poll := s.call(messages.Poll{Process: id, Yield: new(messages.DefaultMaxPoll)})
	if _, err := s.terminate(id); err != nil {
		t.Error(err)
	}
	if got := poll.result(); got.Running || got.Status != messages.StatusSignaled(15) {
		t.Errorf("the poll: %+v", got)
	}
	if live := s.list(); len(live) != 0 {
		t.Errorf("list: %+v", live)
	}
}

func TestATerminationIsNotConfirmedWhileTheProcessRuns(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	stubborn := quick("trap 'echo asked' TERM; echo deaf; while :; do if read -t 0; then read -r x; echo got $x; else sleep 0.01; fi; done")
	stubborn.OpenStdin, stubborn.Grace = true, new(time.Hour)
	id := s.exec(stubborn).Process
	s.said(id, "deaf")
	first := s.call(messages.Terminate{Process: id})
	s.said(id, "asked")
	if got := s.write(id, "input\n"); !got.Running {
		t.Errorf("while it runs: %+v", got)
	}
	s.said(id, "got input\n")
	if first.answered(0) {
		t.Error("it was answered while the process runs")
	}
	if live := s.list(); len(live) != 1 || live[0].Process != id || live[0].State != messages.StateRunning {
		t.Errorf("list: %+v", live)
	}
	second, err := ask[*messages.EndRecord](h, s.supervisor, messages.Terminate{Process: id, Grace: new(time.Duration)})
	if err != nil || second.Cause != messages.CauseTerminated || second.Status != messages.StatusSignaled(9) {
		t.Errorf("%v, %v", second, err)
	}
	if reply, err := first.reply(); err != nil || reply.(*messages.EndRecord).String() != second.String() {
		t.Errorf("the first caller was told %v, %v", reply, err)
	}
	if live := s.list(); len(live) != 0 {
		t.Errorf("list: %+v", live)
	}
}

func TestTerminateAllDoesNotWaitForCommandsThatCameLater(t *testing.T) {
	h := newHost(t, hostOptions{teardown: time.Millisecond})
	s := h.open(nil)
	stubborn := quick("trap 'echo asked' TERM; echo deaf; while :; do sleep 0.01; done")
	stubborn.Grace = new(time.Hour)
	old := s.exec(stubborn).Process
	s.said(old, "deaf")
	all := s.call(protocol.TerminateAll{})
	s.said(old, "asked")
	later := s.exec(quick(idle)).Process
	if all.answered(100 * time.Millisecond) {
		t.Error("it was answered before all had ended")
	}
	if _, err := ask[*messages.EndRecord](h, s.supervisor, messages.Terminate{Process: old, Grace: new(time.Duration)}); err != nil {
		t.Error(err)
	}
	if _, err := all.reply(); err != nil {
		t.Error(err)
	}
	if live := s.list(); len(live) != 1 || live[0].Process != later {
		t.Errorf("list: %+v", live)
	}
}
