package actors

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/tests/probe"
)

func TestOneStartIsPublishedWithTheResolvedCommand(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	for _, test := range []struct {
		name    string
		command messages.ExecCommand
		argv    []string
		dir     string
	}{
		{"a script", messages.ExecCommand{Script: "true", Shell: "bash"}, []string{"-c", "true"}, s.dir},
		{"a login shell", messages.ExecCommand{Script: "true", Shell: "bash", Login: new(true)}, []string{"-lc", "true"}, s.dir},
		{"a relative directory", messages.ExecCommand{Argv: []string{"true"}, Dir: "../" + filepath.Base(s.dir)}, nil, s.dir},
		{"an absolute directory", messages.ExecCommand{Argv: []string{"true"}, Dir: "/"}, nil, "/"},
		{"the session's own directory", messages.ExecCommand{Argv: []string{"true"}}, nil, s.dir},
	} {
		command := test.command
		command.Call, command.Yield = messages.CallID(test.name), new(messages.MaxYield)
		done := s.exec(command)
		s.ended(done.Process)
		starts := probe.Of(s.events, func(e messages.ExecStarted) bool { return e.Process == done.Process })
		if len(starts) != 1 || starts[0].Call != command.Call || starts[0].Session != s.id || starts[0].PID <= 1 || starts[0].Dir != test.dir {
			t.Fatalf("%s: %+v", test.name, starts)
		}
		argv := starts[0].Argv
		if test.argv == nil {
			if !slices.Equal(argv, command.Argv) {
				t.Errorf("%s: %q", test.name, argv)
			}
		} else if len(argv) != 3 || filepath.Base(argv[0]) != "bash" || !filepath.IsAbs(argv[0]) || !slices.Equal(argv[1:], test.argv) {
			t.Errorf("%s: %q", test.name, argv)
		}
	}
}

func TestOneEndIsPublishedWithCodeTotalAndTranscript(t *testing.T) {
	bothSpawners(t, func(t *testing.T, h *host) {
		s := h.open(nil)
		short := s.exec(shell("echo short; echo err >&2; exit 3"))
		if end := s.ended(short.Process); end.Status != messages.StatusExited(3) || end.Cause != messages.CauseExited || end.Total != 10 ||
			!strings.Contains(string(end.Transcript), "short\n") || !strings.Contains(string(end.Transcript), "err\n") {
			t.Errorf("%v, total %d, %q", &end.EndRecord, end.Total, end.Transcript)
		}
		polled := s.exec(messages.ExecCommand{Call: "polled", Argv: []string{"bash", "-c", "sleep 0.3; until [ -e gate ]; do sleep 0.01; done; printf text"}, Yield: new(messages.MinYield)})
		gate(t, s, "gate")
		rest := must[*messages.Result](h, s.supervisor, messages.Poll{Process: polled.Process})
		wantCode(t, rest, 0)
		end := s.ended(polled.Process)
		if end.Status != messages.StatusExited(0) || end.Total != 4 || string(end.Transcript) != "text" || end.Call != "polled" {
			t.Errorf("%v, total %d, %q", &end.EndRecord, end.Total, end.Transcript)
		}
		if end.Duration < messages.MinYield {
			t.Errorf("it took %v", end.Duration)
		}
		probe.ExpectNone(s.events, patience, func(e messages.ExecEnded) bool { return e.Process != polled.Process+1 },
			endOf(s.exec(shell("true"))))
		for _, id := range []messages.ProcessID{short.Process, polled.Process} {
			if ends := s.endsOf(id); len(ends) != 1 {
				t.Errorf("%d ends", len(ends))
			}
			if starts := probe.Of(s.events, func(e messages.ExecStarted) bool { return e.Process == id }); len(starts) != 1 {
				t.Errorf("%d starts", len(starts))
			}
		}
	})
}

func TestEventsOfAProcessComeInOrder(t *testing.T) {
	bothSpawners(t, func(t *testing.T, h *host) {
		s := h.open(nil)
		done := s.exec(onTerminal(shell("echo out; sleep 0.05 & echo more")))
		s.ended(done.Process)
		var kinds []messages.EventKind
		var offset int64
		for _, e := range probe.Of[messages.Event](s.events, nil) {
			if delta, ok := e.(messages.OutputDelta); ok {
				if delta.Offset != offset {
					t.Errorf("offset %d, want %d", delta.Offset, offset)
				}
				offset += int64(len(delta.Bytes))
			}
			if !slices.Contains(kinds, e.Kind()) {
				kinds = append(kinds, e.Kind())
			}
		}
		first, last := kinds[1], kinds[len(kinds)-1]
		if kinds[0] != messages.KindToolDecision || first != messages.KindExecStarted || last != messages.KindExecEnded || !slices.Contains(kinds, messages.KindExecExited) ||
			!slices.Contains(kinds, messages.KindOutputClosed) {
			t.Errorf("in this order: %v", kinds)
		}
	})
}

// modes is a script that changes the mode of its terminal after each line, and says what it read.
const modes = `stty echo icanon; echo 'takes line'; read -r x; read -r gate <gate; stty -echo; echo 'takes secret'; read -r y
stty -icanon; echo 'takes keys'; head -c 1 >/dev/null; stty echo; echo 'takes shown keys'; head -c 1 >/dev/null; echo "done $x ${#y}"`

func TestInteractionsHaveTheBytesThatMayBeKeptAndTheLengthOfOthers(t *testing.T) {
	for _, raw := range []bool{false, true} {
		h := newHost(t, hostOptions{})
		dir := t.TempDir()
		s := h.open(func(c *shared.SessionConfig) { c.RecordRaw, c.Dir = raw, dir })
		gate := filepath.Join(dir, "gate") // so that the mode does not change while a line is being taken
		if err := syscall.Mkfifo(gate, 0o600); err != nil {
			t.Fatal(err)
		}
		command := onTerminal(quick(modes))
		command.Call = "the-call"
		id := s.exec(command).Process
		for _, write := range []struct{ mode, bytes string }{{"line", "shown\n"}, {"secret", "hunter2\n"}, {"keys", "k"}, {"shown keys", "s"}} {
			s.said(id, "takes "+write.mode)
			s.call(messages.WriteStdin{Process: id, Bytes: []byte(write.bytes), UntilTaken: true}).result()
			if write.mode == "line" {
				if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		if end := s.ended(id); !strings.Contains(string(end.Transcript), "done shown 7\r\n") {
			t.Fatalf("transcript %q", end.Transcript)
		}
		keys := [2]string{}
		if raw {
			keys = [2]string{"k", "s"}
		}
		want := []messages.TerminalInteraction{{Length: 6, Mode: messages.InputLine, Input: []byte("shown\n")}, {Length: 8, Mode: messages.InputSecret},
			{Length: 1, Mode: messages.InputKeys, Input: []byte(keys[0])}, {Length: 1, Mode: messages.InputKeys, Input: []byte(keys[1])}}
		got := probe.Of[messages.TerminalInteraction](s.events, nil)
		if len(got) != len(want) {
			t.Fatalf("interactions: %+v", got)
		}
		for i, e := range got {
			if e.Call != "the-call" || e.Process != id || e.Session != s.id || e.Length != want[i].Length || e.Mode != want[i].Mode ||
				string(e.Input) != string(want[i].Input) || (e.Input == nil) != (len(want[i].Input) == 0) {
				t.Errorf("raw %t: %+v, want %+v", raw, e, want[i])
			}
		}
	}
}

// A write that waits is judged when it is taken: a password that was written while the terminal still showed lines is a secret if the program
// has turned echo off before its terminal gets to it. So is one behind more lines than the terminal holds, which it handles later.
func TestAWriteThatWaitsIsJudgedWhenItIsTaken(t *testing.T) {
	h := newHost(t, hostOptions{})
	for _, size := range []int{5_000, 300_000} { // the one is written at once, the other waits
		s, gate := h.open(nil), filepath.Join(t.TempDir(), "gate")
		if err := syscall.Mkfifo(gate, 0o600); err != nil {
			t.Fatal(err)
		}
		lines := strings.Repeat(strings.Repeat("x", 499)+"\n", size/500)
		id := s.exec(onTerminal(quick(fmt.Sprintf(`echo ready; read -r gate <%s; stty -echo; head -c %d >/dev/null; read -r x; echo "end ${#x}"`,
			gate, len(lines))))).Process
		s.said(id, "ready")
		write := s.call(messages.WriteStdin{Process: id, Bytes: []byte(lines + "hunter2\n"), UntilTaken: true})
		s.said(id, strings.Repeat(strings.Repeat("x", 499)+"\r\n", 7)) // the terminal shows some of it
		if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
			t.Fatal(err)
		}
		write.result()
		s.said(id, "end 7")
		s.ended(id)
		total, all := 0, probe.Of[messages.TerminalInteraction](s.events, nil)
		for _, e := range all {
			total += e.Length
			if bytes.Contains(e.Input, []byte("hunter2")) {
				t.Errorf("%s has the password", e.Mode)
			}
		}
		if total != len(lines)+8 {
			t.Errorf("%d bytes in %+v", total, all)
		}
	}
}

// What a pipe is given may be a password as well as anything else.
func TestInputOfPipesIsKeptOnlyIfTheSessionSaysSo(t *testing.T) {
	for _, raw := range []bool{false, true} {
		h := newHost(t, hostOptions{})
		s := h.open(func(c *shared.SessionConfig) { c.RecordRaw = raw })
		id := cat(s)
		s.call(messages.WriteStdin{Process: id, Bytes: []byte("token\n"), UntilTaken: true}).result()
		must[protocol.Done](h, s.supervisor, messages.CloseStdin{Process: id})
		s.ended(id)
		got := probe.Of[messages.TerminalInteraction](s.events, nil)
		if len(got) != 1 || got[0].Mode != messages.InputPipe || got[0].Length != 6 || string(got[0].Input) == "token\n" != raw || !raw && got[0].Input != nil {
			t.Errorf("raw %t: %+v", raw, got)
		}
	}
}

func TestAPollOfALivingProcessIsAnInteraction(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	id := cat(s)
	poll := s.call(messages.Poll{Process: id})
	s.call(messages.WriteStdin{Process: id, Bytes: []byte("x"), UntilTaken: true})
	poll.result()
	must[protocol.Done](h, s.supervisor, messages.CloseStdin{Process: id})
	s.ended(id)
	must[*messages.Result](h, s.supervisor, messages.Poll{Process: id})
	var inputs []string
	for _, e := range probe.Of[messages.TerminalInteraction](s.events, nil) {
		inputs = append(inputs, strings.TrimSpace(fmt.Sprint(e.Length, " ", e.Mode)))
	}
	if !slices.Equal(inputs, []string{"0", "1 pipe"}) {
		t.Errorf("interactions: %q", inputs)
	}
}

func TestAPollThatTellsOfTheEndIsNoInteraction(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	during, after := cat(s), cat(s)
	poll := s.call(messages.Poll{Process: during, NoTimeout: true})
	for _, id := range []messages.ProcessID{during, after} {
		must[protocol.Done](h, s.supervisor, messages.CloseStdin{Process: id})
	}
	wantCode(t, poll.result(), 0)
	awaitThat(t, "both have ended", func() bool { return len(s.endsOf(during)) > 0 && len(s.endsOf(after)) > 0 })
	wantCode(t, must[*messages.Result](h, s.supervisor, messages.Poll{Process: after}), 0)
	s.ended(s.exec(shell("true")).Process) // behind all that the polls could have published
	if told := probe.Of[messages.TerminalInteraction](s.events, nil); len(told) != 0 {
		t.Errorf("interactions: %+v", told)
	}
}

func TestMuchOutputKeepsHeadTailAndMarkerInResultAndEnd(t *testing.T) {
	bothSpawners(t, func(t *testing.T, h *host) {
		s := h.open(nil)
		const all = 11 + 1_200_000 + 9
		got := s.exec(shell("printf head-marker; head -c 1200000 /dev/zero | tr '\\0' x; printf 'the\\ttail\\n'"))
		wantCode(t, got, 0)
		if int64(len(got.Output))+got.Omitted != all || got.OriginalTokens() != (all+3)/4 {
			t.Errorf("%d bytes, %d omitted, %d tokens", len(got.Output), got.Omitted, got.OriginalTokens())
		}
		text := got.OutputText()
		for _, part := range []string{"(original token count: 300005)\n", "head-marker", "the\ttail\n", " bytes omitted ..."} {
			if !strings.Contains(text, part) {
				t.Errorf("the text lacks %q: %.400q", part, text)
			}
		}
		end := s.ended(got.Process)
		if end.Total != all || !bytes.HasPrefix(end.Transcript, []byte("head-marker")) || !bytes.HasSuffix(end.Transcript, []byte("the\ttail\n")) ||
			!bytes.Contains(end.Transcript, []byte(messages.OmissionMarker(all-ptyio.DefaultBufferSize))) {
			t.Errorf("total %d, transcript of %d", end.Total, len(end.Transcript))
		}
	})
}

func TestTheFateOfBackgroundChildrenIsReported(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	ended := s.exec(shell("sleep 1000 & echo leader"))
	wantCode(t, ended, 0)
	if ended.Background == nil || ended.Background.Count != 1 || ended.Background.Kept || string(ended.Output) != "leader\n" {
		t.Errorf("%+v, background %v", ended, ended.Background)
	}
	if end := s.ended(ended.Process); end.Tree.Ended != 1 || end.Cause != messages.CauseExited || end.Status != messages.StatusExited(0) {
		t.Errorf("%v, tree %+v", &end.EndRecord, end.Tree)
	}

	command := shell("{ read -r x; echo child $x; sleep 1000; } <&3 3<&- & echo leader; exit 6")
	command.Argv = []string{"bash", "-c", "exec 3<&0; " + command.Argv[2]}
	command.OnLeaderExit, command.OpenStdin = messages.LeaderExitKeepsTree, true
	kept := s.exec(command)
	if !kept.Running || kept.Status != messages.StatusExited(6) || kept.Background == nil || !kept.Background.Kept || kept.Background.Count != 1 {
		t.Fatalf("%+v, background %v", kept, kept.Background)
	}
	if live := s.list(); len(live) != 1 || live[0].State != messages.StateExited {
		t.Errorf("list: %+v", live)
	}
	if got := s.writeUntil(kept.Process, "lives\n", "lives\n"); string(got.Output) != "child lives\n" || !got.Running {
		t.Errorf("%+v", got)
	}
	page := must[*messages.OutputPage](h, s.supervisor, messages.ReadOutput{Process: kept.Process, Tail: 12})
	if len(page.Chunks) != 1 || string(page.Chunks[0].Bytes) != "child lives\n" || page.Ended {
		t.Errorf("%+v", page)
	}
	record, err := s.terminate(kept.Process)
	if err != nil || record.Cause != messages.CauseExited || record.Status != messages.StatusExited(6) || record.Tree.Ended == 0 {
		t.Errorf("%v, %v", record, err)
	}
}

func TestTheFirstPollAfterAnUnreportedExitAnswersAtOnce(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	command := quick("sleep 1000 & echo leader; exit 6")
	command.OnLeaderExit = messages.LeaderExitKeepsTree
	id := s.exec(command).Process
	probe.Expect(s.events, patience, func(e messages.ExecExited) bool { return e.Process == id })
	got := must[*messages.Result](h, s.supervisor, messages.Poll{Process: id})
	if got.Status != messages.StatusExited(6) || got.WallTime > messages.MinPoll/2 || string(got.Output) != "leader\n" {
		t.Errorf("%+v", got)
	}
}

func TestTheFirstInitiatorOfATerminationCounts(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	stubborn := quick("trap 'exit 0' TERM; echo deaf; while :; do sleep 0.01; done")
	id := s.exec(stubborn).Process
	s.said(id, "deaf")
	first := s.call(messages.Terminate{Process: id, By: messages.TerminatedByLimit})
	second := s.call(messages.Terminate{Process: id, By: messages.TerminatedByUser})
	all := s.call(protocol.TerminateAll{By: messages.TerminatedBySessionClose})
	for _, call := range []waiting{first, second} {
		reply, err := call.reply()
		if record, ok := reply.(*messages.EndRecord); err != nil || !ok || record.By != messages.TerminatedByLimit || record.Status != messages.StatusExited(0) ||
			record.Cause != messages.CauseTerminated {
			t.Errorf("%v, %v", reply, err)
		}
	}
	if _, err := all.reply(); err != nil {
		t.Error(err)
	}
	if end := s.ended(id); end.By != messages.TerminatedByLimit {
		t.Errorf("%v", &end.EndRecord)
	}
}

func TestACommandThatCannotStartEndsOnceAndHoldsNoSlot(t *testing.T) {
	bothSpawners(t, func(t *testing.T, h *host) {
		s := h.open(nil)
		for _, command := range []messages.ExecCommand{{Argv: []string{"/does/not/exist"}}, {Argv: []string{"no-such-program-anywhere"}},
			{Argv: []string{"true"}, Dir: "/does/not/exist"}, {Argv: []string{"/"}}} {
			_, err := ask[any](h, s.supervisor, command)
			wantError(t, "exec", err, messages.ErrSpawnFailed)
			end := probe.Expect[messages.ExecEnded](s.events, patience, nil)
			if end.Cause != messages.CauseSpawnFailed || end.Status != messages.StatusNone() || end.Total != 0 {
				t.Errorf("%v", &end.EndRecord)
			}
			_, err = ask[any](h, s.supervisor, messages.Poll{Process: end.Process})
			wantError(t, "a poll", err, messages.ErrProcessEnded)
		}
		_, err := ask[any](h, s.supervisor, messages.ExecCommand{Script: "true", Shell: "no-such-shell"})
		wantError(t, "an unknown shell", err, messages.ErrInvalidRequest)
		awaitThat(t, "no slot is taken", func() bool { return h.stats().Processes == 0 })
		if starts := probe.Of[messages.ExecStarted](s.events, nil); len(starts) != 0 {
			t.Errorf("started: %+v", starts)
		}
	})
}
