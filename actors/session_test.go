package actors

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/probe"
)

// bothSpawners runs a test with either spawner.
func bothSpawners(t *testing.T, test func(t *testing.T, h *host)) {
	for _, direct := range []bool{false, true} {
		name := "warden"
		if direct {
			name = "direct"
		}
		t.Run(name, func(t *testing.T) { test(t, newHost(t, hostOptions{direct: direct})) })
	}
}

func TestAnInteractiveShellKeepsItsVariablesAndIsIndependentOfOthers(t *testing.T) {
	bothSpawners(t, func(t *testing.T, h *host) {
		s := h.open(nil)
		one, other := s.exec(interactive()).Process, s.exec(interactive()).Process
		if one == other || one < 1000 {
			t.Fatalf("the ids are %d and %d", one, other)
		}
		s.write(one, "export KEPT=of-$((1+1))-days\n")
		s.typed(one, "echo first=$KEPT\n")
		s.said(one, "first=of-2-days\r\n")
		s.typed(one, "echo second=$KEPT\n")
		s.said(one, "second=of-2-days\r\n")
		s.typed(other, "echo other=[$KEPT]\n")
		s.said(other, "other=[]\r\n")
		short := s.exec(shell("echo short=[$KEPT]"))
		wantCode(t, short, 0)
		if string(short.Output) != "short=[]\n" {
			t.Errorf("a command of its own said %q", short.Output)
		}
		s.ended(short.Process)
		if live := s.list(); len(live) != 2 || live[0].Process != one || live[1].Process != other {
			t.Errorf("running: %+v", live)
		}
		s.typed(one, "echo third=$KEPT\n")
		s.said(one, "third=of-2-days\r\n")
	})
}

func TestAPollGetsWhatAWriteSetOffLater(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	id := s.exec(interactive()).Process
	began := time.Now()
	first := must[*messages.Result](h, s.supervisor, messages.WriteStdin{Process: id, Yield: new(10 * time.Millisecond),
		Bytes: []byte("stty -echo; until [ -e gate ]; do sleep 0.01; done; echo la''ter\n")})
	if took := time.Since(began); !first.Running || strings.Contains(string(first.Output), "later") || took < messages.MinYield {
		t.Errorf("the write answered %q after %v", first.Output, took)
	}
	poll := s.call(messages.WriteStdin{Process: id, Yield: new(time.Millisecond)})
	gate(t, s, "gate")
	s.said(id, "later\r\n")
	s.call(messages.WriteStdin{Process: id, Bytes: []byte("\n"), UntilTaken: true}) // ends the poll
	if got := poll.result(); !got.Running || string(got.Output) != "later\r\n" {
		t.Errorf("the poll answered %q, running %t", got.Output, got.Running)
	}
}

// gate makes the file that a script waits for.
func gate(t testing.TB, s *talk, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAfterTheExitAPollGetsTheRestAndLaterOnesTheRecord(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	piped := quick("read -r x; echo rest; exit 3")
	piped.OpenStdin = true
	id := s.exec(piped).Process
	must[*messages.Result](h, s.supervisor, messages.WriteStdin{Process: id, Bytes: []byte("go\n"), UntilTaken: true})
	s.ended(id)
	first := must[*messages.Result](h, s.supervisor, messages.Poll{Process: id})
	wantCode(t, first, 3)
	if string(first.Output) != "rest\n" {
		t.Errorf("the rest is %q", first.Output)
	}
	for _, message := range []any{messages.Poll{Process: id}, messages.WriteStdin{Process: id, Bytes: []byte("x")},
		messages.WriteStdin{Process: id}, messages.Signal{Process: id, Signal: 1}, messages.Resize{Process: id},
		messages.CloseStdin{Process: id}, messages.Terminate{Process: id}} {
		_, err := ask[any](h, s.supervisor, message)
		ended := wantError(t, "after the end", err, messages.ErrUnknownProcess)
		if ended.Code != messages.ErrProcessEnded || ended.Ended == nil || ended.Ended.Status != messages.StatusExited(3) ||
			!strings.Contains(ended.Error(), id.String()) {
			t.Errorf("%T: %+v", message, ended)
		}
	}
	probe.ExpectNone(s.events, patience, func(e messages.TerminalInteraction) bool { return e.Process == id && e.Length == 0 },
		endOf(s.exec(shell("true"))))
	_, err := ask[any](h, s.supervisor, messages.Poll{Process: 99_999})
	if never := wantError(t, "an id that never was", err, messages.ErrUnknownProcess); never.Code != messages.ErrUnknownProcess {
		t.Errorf("%+v", never)
	}
}

func TestAWriteToAnEndedProcessGetsTheRest(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	id := s.exec(quick("echo rest; exit 3")).Process
	s.ended(id)
	_, err := ask[any](h, s.supervisor, messages.WriteStdin{Process: id, Bytes: []byte("x"), UntilTaken: true}) // takes no output
	wantError(t, "one that does not wait", err, messages.ErrProcessEnded)
	write := messages.WriteStdin{Process: id, Bytes: []byte("late\n")}
	got := must[*messages.Result](h, s.supervisor, write)
	wantCode(t, got, 3)
	if string(got.Output) != "rest\n" || got.Taken != 0 || got.InputErr == nil || got.InputErr.Code != messages.ErrClosed {
		t.Errorf("%+v", got)
	}
	_, err = ask[any](h, s.supervisor, write)
	if ended := wantError(t, "a later one", err, messages.ErrProcessEnded); !strings.HasPrefix(ended.Detail, "it exited with code 3") {
		t.Errorf("%q", ended.Detail)
	}
}

// endOf returns the end of a process; it comes after all events of processes that ended earlier.
func endOf(r *messages.Result) func(any) bool {
	return func(message any) bool {
		end, ok := message.(messages.ExecEnded)
		return ok && end.Process == r.Process
	}
}

func TestTheListShowsRunningProcessesAndTerminateAnswersWithTheRecord(t *testing.T) {
	bothSpawners(t, func(t *testing.T, h *host) {
		s := h.open(nil)
		if err := os.Mkdir(filepath.Join(s.dir, "below"), 0o755); err != nil {
			t.Fatal(err)
		}
		command := protocol.StartCommand{ExecCommand: messages.ExecCommand{Call: "call-7", Script: idle, Dir: "below"}}
		id := s.exec(command).Process
		words := s.exec(protocol.StartCommand{ExecCommand: messages.ExecCommand{Argv: []string{"sleep", "1000"}}}).Process
		live := s.list()
		if len(live) != 2 {
			t.Fatalf("list: %+v", live)
		}
		if got := live[0]; got.Process != id || got.Call != "call-7" || got.Label != idle || got.Dir != filepath.Join(s.dir, "below") ||
			got.State != messages.StateRunning || got.PID <= 1 || got.End != nil {
			t.Errorf("list: %+v", got)
		}
		if got := live[1]; got.Process != words || got.Label != "sleep 1000" {
			t.Errorf("list: %+v", got)
		}
		record, err := s.terminate(id)
		if err != nil || record.Cause != messages.CauseTerminated || record.By != messages.TerminatedByUser || record.Status != messages.StatusSignaled(15) {
			t.Errorf("terminate: %v, %v", record, err)
		}
		if end := s.ended(id); end.EndRecord.String() != record.String() {
			t.Errorf("published: %v, answered: %v", &end.EndRecord, record)
		}
		_, err = s.terminate(id)
		if again := wantError(t, "terminate again", err, messages.ErrProcessEnded); again.Ended.String() != record.String() {
			t.Errorf("its record: %v", again.Ended)
		}
		if _, err := s.terminate(words); err != nil {
			t.Error(err)
		}
		if live := s.list(); len(live) != 0 {
			t.Errorf("list: %+v", live)
		}
		records := must[messages.Processes](h, s.supervisor, protocol.ListProcesses{Records: true})
		if len(records) != 2 || records[0].End == nil || records[0].State != messages.StateClosed {
			t.Errorf("records: %+v", records)
		}
	})
}

func TestACommandOnPipesByDefaultAndOnATerminalIfAsked(t *testing.T) {
	bothSpawners(t, func(t *testing.T, h *host) {
		s := h.open(nil)
		command := shell("test -t 1 && echo tty $(stty size) || echo pipe; exit 17")
		if got := s.exec(command); string(got.Output) != "pipe\n" {
			t.Errorf("on pipes: %q", got.Output)
		} else {
			wantCode(t, got, 17)
		}
		if got := s.exec(onTerminal(command)); string(got.Output) != "tty 24 80\r\n" {
			t.Errorf("on a terminal: %q", got.Output)
		} else {
			wantCode(t, got, 17)
		}
		began := time.Now()
		got := s.exec(shell("sleep 0.05"))
		if took := time.Since(began); took > messages.MaxYield/3 || len(got.Output) != 0 {
			t.Errorf("%q after %v", got.Output, took)
		}
		wantCode(t, got, 0)
	})
}

func TestACatSession(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	cat := s.exec(messages.ExecCommand{Call: "the-cat", Argv: []string{"cat"}, TTY: true, Yield: new(time.Millisecond)})
	if !cat.Running || cat.Process < 1000 || len(cat.Output) != 0 {
		t.Fatalf("%+v", cat)
	}
	if _, known := cat.Status.Code(); known {
		t.Errorf("it runs and has an exit code: %v", cat.Status)
	}
	echoed := s.writeUntil(cat.Process, "hello\n", "hello\r\nhello\r\n")
	if string(echoed.Output) != "hello\r\nhello\r\n" || echoed.Process != cat.Process || echoed.Taken != 6 {
		t.Errorf("%+v", echoed)
	}
	last := s.writeUntil(cat.Process, "\x04", "its end")
	wantCode(t, last, 0)
	probe.ExpectInOrder(s.events, patience,
		probe.A(func(e messages.TerminalInteraction) bool { return string(e.Input) == "hello\n" && e.Call == "the-cat" }),
		probe.A(func(e messages.TerminalInteraction) bool {
			return string(e.Input) == "\x04" && e.Process == cat.Process
		}),
		probe.A(func(e messages.ExecEnded) bool { return e.Call == "the-cat" && e.Status == messages.StatusExited(0) }))
	_, err := ask[any](h, s.supervisor, messages.Poll{Process: cat.Process})
	wantError(t, "a poll", err, messages.ErrProcessEnded)
	if live := s.list(); len(live) != 0 {
		t.Errorf("list: %+v", live)
	}
}

func TestTheInterruptCharacterOnPipesIsASignal(t *testing.T) {
	bothSpawners(t, func(t *testing.T, h *host) {
		s := h.open(nil)
		// A bash that waits for something in front forgets the signal if that ends by itself at this moment.
		id := s.exec(quick(`trap 'echo trapped; exit 42' INT; echo set; while :; do sleep 0.1 & wait; done`)).Process
		s.said(id, "set")
		got := must[*messages.Result](h, s.supervisor, messages.WriteStdin{Process: id, Bytes: []byte("\x03"), Yield: new(messages.MaxYield)})
		wantCode(t, got, 42)
		if !strings.HasSuffix(string(got.Output), "trapped\n") || got.Taken != 1 {
			t.Errorf("%+v", got)
		}
		s.ended(id)
		id = s.exec(quick("echo set; " + idle)).Process
		s.said(id, "set")
		got = must[*messages.Result](h, s.supervisor, messages.WriteStdin{Process: id, Bytes: []byte("\x03"), Yield: new(messages.MaxYield)})
		if code, known := got.Status.Code(); got.Running || !known || code != 130 {
			t.Errorf("%+v", got)
		}
		if end := s.ended(id); end.Cause != messages.CauseExited {
			t.Errorf("the cause is %v", end.Cause)
		}
		if live := s.list(); len(live) != 0 {
			t.Errorf("list: %+v", live)
		}
		id = s.exec(quick(idle)).Process
		_, err := ask[any](h, s.supervisor, messages.WriteStdin{Process: id, Bytes: []byte("other input")})
		wantError(t, "input for a command without", err, messages.ErrStdinClosed)
	})
}

func TestAShortYieldAnswersWithTheIdAndAPollGetsTheOutput(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	first := s.exec(messages.ExecCommand{Argv: []string{"bash", "-c", "until [ -e gate ]; do sleep 0.01; done; echo done"}, Yield: new(10 * time.Millisecond)})
	if !first.Running || len(first.Output) != 0 || first.Status != messages.StatusNone() || !regexp.MustCompile("^[0-9a-f]{6}$").MatchString(first.ChunkID) {
		t.Errorf("%+v", first)
	}
	if first.WallTime < messages.MinYield {
		t.Errorf("it answered after %v", first.WallTime)
	}
	gate(t, s, "gate")
	second := must[*messages.Result](h, s.supervisor, messages.Poll{Process: first.Process, Yield: new(time.Millisecond)})
	wantCode(t, second, 0)
	if string(second.Output) != "done\n" || second.ChunkID == first.ChunkID {
		t.Errorf("%+v", second)
	}
}

func TestAProcessOutlivesACancelledInitialCallAndEndsWithItsSession(t *testing.T) {
	for _, by := range []messages.TerminatedBy{messages.TerminatedBySessionClose, messages.TerminatedByShutdown} {
		t.Run(string(by), func(t *testing.T) {
			h := newHost(t, hostOptions{})
			s := h.open(nil)
			initial := s.call(messages.ExecCommand{Argv: []string{"bash", "-c", "echo begun; " + idle}, Yield: new(messages.MaxYield)})
			id := probe.Expect[messages.ExecStarted](s.events, patience, nil).Process
			s.said(id, "begun")
			initial.cancel()
			_, err := initial.reply()
			wantError(t, "the cancelled call", err, messages.ErrCancelled)
			if live := s.list(); len(live) != 1 || live[0].State != messages.StateRunning {
				t.Errorf("list: %+v", live)
			}
			if by == messages.TerminatedByShutdown {
				h.shutdown()
			} else {
				must[protocol.Done](h, s.supervisor, protocol.CloseSession{By: by})
			}
			if end := s.ended(id); end.Cause != messages.CauseTerminated || end.By != by || string(end.Transcript) != "begun\n" {
				t.Errorf("%v, %q", &end.EndRecord, end.Transcript)
			}
			_, err = ask[any](h, s.supervisor, protocol.ListProcesses{})
			wantError(t, "a request to a closed session", err, messages.ErrClosed)
		})
	}
}

func TestUpdateEnvironmentAffectsLaterCommandsOnly(t *testing.T) {
	h := newHost(t, hostOptions{})
	s := h.open(nil)
	earlier := s.exec(interactive()).Process
	dir := t.TempDir()
	must[protocol.Done](h, s.supervisor, messages.UpdateEnvironment{Dir: &dir,
		Environment: &messages.EnvironmentPolicy{Set: map[string]string{"NEWS": "fresh"}}})
	if got := s.exec(shell(`echo "$PWD [$NEWS]"`)); string(got.Output) != dir+" [fresh]\n" {
		t.Errorf("a later command said %q", got.Output)
	}
	s.write(earlier, "echo \"=$PWD [$NEWS]\"\n")
	s.said(earlier, "="+s.dir+" []\r\n")
	below := "below"
	if err := os.Mkdir(filepath.Join(dir, below), 0o755); err != nil {
		t.Fatal(err)
	}
	must[protocol.Done](h, s.supervisor, messages.UpdateEnvironment{Dir: &below})
	if got := s.exec(shell(`echo "$PWD [$NEWS]"`)); string(got.Output) != filepath.Join(dir, below)+" [fresh]\n" {
		t.Errorf("after a relative change a command said %q", got.Output)
	}
	nul := "a\x00b"
	_, err := ask[any](h, s.supervisor, messages.UpdateEnvironment{Dir: &nul})
	wantError(t, "a directory that cannot be", err, messages.ErrInvalidRequest)
}
