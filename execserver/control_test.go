package execserver

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
)

func TestInputIsEchoedOnTerminalsAndPipes(t *testing.T) {
	everyTransport(t, Options{}, func(t *testing.T, c *client) {
		c.open("")
		pipe := startParams("pipe", "cat")
		pipe.PipeStdin = true
		c.start(pipe)
		c.write("pipe", "hello\n")
		if n := paramsOf(c.happened("pipe", outputIs("hello\n"))); n.Stream != "stdout" {
			t.Errorf("got %+v", n)
		}
		tty := shell("tty", "stty -echo; echo ready; read line; echo got $line; tty >/dev/null && exit 3")
		tty.TTY = true
		c.start(tty)
		c.happened("tty", func(m wire.Message) bool { return strings.Contains(string(paramsOf(m).Chunk), "ready") })
		c.write("tty", "word\n")
		if exited := paramsOf(c.happened("tty", is(wire.ProcessExited))); exited.ExitCode != 3 {
			t.Errorf("got %+v", exited)
		}
		c.happened("tty", is(wire.ProcessClosed))
		if text, _ := c.output("tty"); !strings.Contains(text, "got word\r\n") {
			t.Errorf("got %q", text)
		}
		if result := ask[wire.WriteResult](t, c, wire.ProcessCloseStdin, wire.CloseStdinParams{ProcessID: "pipe"}); result.Status != wire.WriteAccepted {
			t.Errorf("got %+v", result)
		}
		c.happened("pipe", is(wire.ProcessClosed))
	})
}

func writeStatus(t *testing.T, c *client, params wire.WriteParams) wire.WriteStatus {
	t.Helper()
	return ask[wire.WriteResult](t, c, wire.ProcessWrite, params).Status
}

func TestInputThatCannotBeWrittenHasAStatus(t *testing.T) {
	c := opened(t, Options{})
	if got := writeStatus(t, c, wire.WriteParams{ProcessID: "none", Chunk: wire.Chunk("x")}); got != wire.WriteUnknownProcess {
		t.Errorf("got %s", got)
	}
	if got := ask[wire.WriteResult](t, c, wire.ProcessCloseStdin, wire.CloseStdinParams{ProcessID: "none"}); got.Status != wire.WriteUnknownProcess {
		t.Errorf("got %+v", got)
	}
	if text, code := c.result(startParams("null", "cat")); text != "" || code != 0 {
		t.Errorf("a process without input read %q, %d", text, code)
	}
	if got := writeStatus(t, c, wire.WriteParams{ProcessID: "null", Chunk: wire.Chunk("x")}); got != wire.WriteStdinClosed {
		t.Errorf("got %s", got)
	}
	params := startParams("pipe", "cat")
	params.PipeStdin = true
	c.start(params)
	ask[wire.WriteResult](t, c, wire.ProcessCloseStdin, wire.CloseStdinParams{ProcessID: "pipe"})
	if got := writeStatus(t, c, wire.WriteParams{ProcessID: "pipe", Chunk: wire.Chunk("x")}); got != wire.WriteStdinClosed {
		t.Errorf("got %s", got)
	}
	c.happened("pipe", is(wire.ProcessClosed))
	ended := startParams("ended", "true")
	ended.PipeStdin = true
	c.result(ended)
	for end := time.Now().Add(time.Minute); ; { // the end of its tree may come a moment after that of its output
		got := writeStatus(t, c, wire.WriteParams{ProcessID: "ended", Chunk: wire.Chunk("x")})
		if got == wire.WriteStdinClosed {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("got %s", got)
		}
	}
}

func TestARepeatedWriteIsNotWrittenAgain(t *testing.T) {
	s, c, session := resumable(t, Options{})
	first := wire.WriteParams{ProcessID: "p", Chunk: wire.Chunk("once"), WriteID: new("a")}
	for range 3 {
		if got := writeStatus(t, c, first); got != wire.WriteAccepted {
			t.Errorf("got %s", got)
		}
	}
	c.says("p", "once")
	c.close()
	c = inProcess(t, s)
	c.open(session)
	first.UntilTaken = true
	if result := ask[wire.WriteResult](t, c, wire.ProcessWrite, first); result.Status != wire.WriteAccepted || *result.Taken != 4 {
		t.Errorf("got %+v", result)
	}
	c.write("p", "end")
	c.says("p", "end")
	if text, _ := c.output("p"); text != "end" {
		t.Errorf("got %q", text)
	}
	refused(t, c, wire.ProcessWrite, wire.WriteParams{ProcessID: "p", WriteID: new("")}, wire.InvalidParams, "writeId must not be empty")
}

func TestOnlyTheLastWriteIDsAreRemembered(t *testing.T) {
	var w writeIDs
	for i := range wire.RememberedIDs + 1 {
		w.add(string(rune(i+1)), &outcome{})
	}
	if len(w.outcomes) != wire.RememberedIDs || w.outcomes[string(rune(1))] != nil || w.outcomes[string(rune(2))] == nil {
		t.Errorf("%d are remembered", len(w.outcomes))
	}
}

func TestAWriteCanWaitUntilTheInputIsTaken(t *testing.T) {
	c := opened(t, Options{})
	params := startParams("p", "sleep", "1000")
	params.PipeStdin = true
	c.start(params)
	large := wire.WriteParams{ProcessID: "p", Chunk: bytes.Repeat([]byte("x"), 200<<10), UntilTaken: true, PatienceMs: new(uint64(1))}
	result := ask[wire.WriteResult](t, c, wire.ProcessWrite, large)
	if result.Error == nil || result.Error.Code != "input_not_taken" || *result.Taken == 0 || *result.Taken >= len(large.Chunk) {
		t.Errorf("got %+v", result)
	}
	large.Chunk, large.UntilTaken = make([]byte, 2<<20), false
	refused(t, c, wire.ProcessWrite, large, wire.Internal, "not written")
}

func TestAnInterruptReachesTheHandler(t *testing.T) {
	c := opened(t, Options{})
	c.start(shell("p", "trap 'exit 7' INT; echo ready; while :; do sleep 0.01; done"))
	c.says("p", "ready\n")
	ask[wire.Empty](t, c, wire.ProcessSignal, wire.SignalParams{ProcessID: "p", Signal: "interrupt"})
	if exited := paramsOf(c.happened("p", is(wire.ProcessExited))); exited.ExitCode != 7 {
		t.Errorf("got %+v", exited)
	}
	ask[wire.Empty](t, c, wire.ProcessSignal, wire.SignalParams{ProcessID: "p", Signal: "interrupt"})
	ask[wire.Empty](t, c, wire.ProcessSignal, wire.SignalParams{ProcessID: "none", Signal: "interrupt"})
}

func TestSignalsAreNamed(t *testing.T) {
	c := opened(t, Options{})
	for _, name := range []string{"SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL", "SIGUSR1", "SIGSEGV",
		"SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM", "SIGCHLD", "SIGCONT", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGXCPU",
		"SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO", "SIGSYS", "SIG40"} {
		ask[wire.Empty](t, c, wire.ProcessSignal, wire.SignalParams{ProcessID: "none", Signal: name})
	}
	for _, name := range []string{"", "INT", "sigint", "SIGNOPE", "SIG0", "SIG-1", "SIG65", "9"} {
		refused(t, c, wire.ProcessSignal, wire.SignalParams{ProcessID: "none", Signal: name}, wire.InvalidParams, "signal")
	}
	c.start(shell("p", "(trap '' HUP; exec sleep 1000) & trap 'echo usr1' USR1; echo ready; while :; do sleep 0.01; done"))
	c.says("p", "ready\n")
	ask[wire.Empty](t, c, wire.ProcessSignal, wire.SignalParams{ProcessID: "p", Signal: "SIGUSR1"})
	c.says("p", "usr1\n")
	ask[wire.Empty](t, c, wire.ProcessSignal, wire.SignalParams{ProcessID: "p", Signal: "SIGKILL", Tree: true})
	if exited := paramsOf(c.happened("p", is(wire.ProcessExited))); exited.ExitCode != 137 {
		t.Errorf("got %+v", exited)
	}
	c.happened("p", is(wire.ProcessClosed))
}

func TestTerminateSaysWhetherTheProcessRan(t *testing.T) {
	c := opened(t, Options{})
	terminate := func(id string) bool {
		return ask[wire.TerminateResult](t, c, wire.ProcessTerminate, wire.TerminateParams{ProcessID: id}).Running
	}
	if terminate("none") {
		t.Error("an unknown process ran")
	}
	c.start(startParams("p", "sleep", "1000"))
	if !terminate("p") {
		t.Error("it did not run")
	}
	c.happened("p", is(wire.ProcessClosed))
	if terminate("p") {
		t.Error("it ran after its end")
	}
}

func TestATerminalIsResized(t *testing.T) {
	c := opened(t, Options{})
	params := shell("p", "trap 'stty size' WINCH; stty size; while :; do sleep 0.01; done")
	params.TTY, params.Size = true, &wire.Size{Rows: 5, Cols: 7}
	c.start(params)
	c.says("p", "5 7\r\n")
	ask[wire.Empty](t, c, wire.ProcessResize, wire.ResizeParams{ProcessID: "p", Size: wire.Size{Rows: 8, Cols: 9}})
	c.says("p", "8 9\r\n")
	refused(t, c, wire.ProcessResize, wire.ResizeParams{ProcessID: "none"}, wire.InvalidRequest, "unknown process id none")
	c.start(startParams("pipe", "sleep", "1000"))
	refused(t, c, wire.ProcessResize, wire.ResizeParams{ProcessID: "pipe", Size: wire.Size{Rows: 8, Cols: 9}}, wire.InvalidRequest)
}

func TestALongPollBlocksNothing(t *testing.T) {
	everyTransport(t, Options{}, func(t *testing.T, c *client) {
		c.open("")
		c.start(startParams("p", "sleep", "1000"))
		poll := c.send(wire.ProcessRead, wire.ReadParams{ProcessID: "p", WaitMs: new(uint64(1 << 62))})
		ask[wire.StatusResult](t, c, wire.EnvironmentStatus, nil)
		ask[wire.TerminateResult](t, c, wire.ProcessTerminate, wire.TerminateParams{ProcessID: "p", GraceMs: new(uint32)})
		page, fault := understood[wire.ReadResult](t, poll)
		if fault != nil || !page.Exited || *page.ExitCode != 143 && *page.ExitCode != 137 {
			t.Errorf("got %+v, %v", page, fault)
		}
	})
}

func TestRequestsThatWaitHaveALimit(t *testing.T) {
	c := opened(t, Options{MaxRequests: 1})
	c.start(startParams("p", "sleep", "1000"))
	poll := c.send(wire.ProcessRead, wire.ReadParams{ProcessID: "p", WaitMs: new(uint64(1 << 40))})
	refused(t, c, wire.ProcessRead, wire.ReadParams{ProcessID: "p"}, wire.Internal, "1 requests are unanswered")
	ask[wire.TerminateResult](t, c, wire.ProcessTerminate, wire.TerminateParams{ProcessID: "p"})
	if page, fault := understood[wire.ReadResult](t, poll); fault != nil || !page.Exited {
		t.Errorf("got %+v, %v", page, fault)
	}
	ask[wire.ReadResult](t, c, wire.ProcessRead, wire.ReadParams{ProcessID: "p"})
}

func TestAPollOfAConnectionThatEndsIsAnsweredByNobodyAndLeavesNothing(t *testing.T) {
	s, c, session := resumable(t, Options{})
	c.send(wire.ProcessRead, wire.ReadParams{ProcessID: "p", WaitMs: new(uint64(1 << 40))})
	c.close()
	c = inProcess(t, s)
	c.open(session)
	c.write("p", "x")
	c.says("p", "x")
}

func TestReadsHaveARoomForBytes(t *testing.T) {
	c := opened(t, Options{})
	params := startParams("p", "cat")
	params.PipeStdin = true
	c.start(params)
	for _, text := range []string{"aa", "bb", "cc"} {
		c.write("p", text)
		c.says("p", text)
	}
	for _, test := range []struct {
		after, room *uint64
		chunks      string
		next        uint64
	}{
		{nil, nil, "aa bb cc", 4}, {nil, new(uint64(0)), "aa", 2}, {nil, new(uint64(3)), "aa", 2}, {nil, new(uint64(4)), "aa bb", 3},
		{new(uint64(1)), new(uint64(100)), "bb cc", 4}, {new(uint64(3)), nil, "", 4}, {new(uint64(3)), new(uint64(1)), "", 4}, {new(uint64(99)), nil, "", 4},
	} {
		page := ask[wire.ReadResult](t, c, wire.ProcessRead, wire.ReadParams{ProcessID: "p", AfterSeq: test.after, MaxBytes: test.room})
		var chunks []string
		for _, chunk := range page.Chunks {
			chunks = append(chunks, string(chunk.Chunk))
		}
		if got := strings.Join(chunks, " "); got != test.chunks || page.NextSeq != test.next || page.Exited {
			t.Errorf("%+v: got %q, %d", test, got, page.NextSeq)
		}
	}
}

func TestAReadWaitsForNews(t *testing.T) {
	s, c, _ := resumable(t, Options{})
	if page := ask[wire.ReadResult](t, c, wire.ProcessRead, wire.ReadParams{ProcessID: "p", WaitMs: new(uint64(50))}); len(page.Chunks) != 0 {
		t.Errorf("got %+v", page)
	}
	poll := c.send(wire.ProcessRead, wire.ReadParams{ProcessID: "p", AfterSeq: new(uint64(0)), WaitMs: new(uint64(1e9))})
	c.write("p", "news")
	if page, fault := understood[wire.ReadResult](t, poll); fault != nil || len(page.Chunks) != 1 || page.NextSeq != 2 {
		t.Errorf("got %+v, %v", page, fault)
	}
	poll = c.send(wire.ProcessRead, wire.ReadParams{ProcessID: "p", AfterSeq: new(uint64(1)), WaitMs: new(uint64(1e9))})
	ask[wire.WriteResult](t, c, wire.ProcessCloseStdin, wire.CloseStdinParams{ProcessID: "p"})
	if page, fault := understood[wire.ReadResult](t, poll); fault != nil || !page.Exited {
		t.Errorf("got %+v, %v", page, fault)
	}
	c.happened("p", is(wire.ProcessClosed))
	if page := ask[wire.ReadResult](t, c, wire.ProcessRead, wire.ReadParams{ProcessID: "p", AfterSeq: new(uint64(99)), WaitMs: new(uint64(1e9))}); !page.Closed {
		t.Errorf("got %+v", page)
	}
	s.Close()
}

func TestChunksMustBeBase64(t *testing.T) {
	_, c, _ := resumable(t, Options{})
	for _, chunk := range []string{`"a"`, `"a-_="`, `7`, `null`} {
		refused(t, c, wire.ProcessWrite, rawParams(`{"processId":"p","chunk":`+chunk+`}`), wire.InvalidParams, "params.chunk")
	}
	raw := base64.StdEncoding.EncodeToString([]byte{0, 255})
	ask[wire.WriteResult](t, c, wire.ProcessWrite, rawParams(`{"processId":"p","chunk":"`+raw+`"}`))
	c.says("p", "\x00\xff")
}
