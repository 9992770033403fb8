package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/execbus/execbus/tests/expect"
)

func TestAStreamRunsCommands(t *testing.T) {
	p := dial(t, Options{})
	p.greet("2025-06-18", "{}")
	p.call(1, "exec_command", `{"cmd":"echo hi; exit 3"}`)
	m := p.answer("1")
	expect.Contains(t, m.text(), "Process exited with code 3\n", "Output:\nhi\n")
	if m.Result.IsError || m.Result.Structured["exit_code"] != 3.0 || m.Result.Structured["output"] != "hi\n" {
		t.Errorf("%+v", m)
	}
	p.call(2, "write_stdin", `{"session_id":77777}`)
	if m = p.answer("2"); !m.Result.IsError || m.Result.Meta[codeKey] != "unknown_process" {
		t.Errorf("%+v", m)
	}
	p.call(3, "exec_command", `{"cmd":1}`)
	if m = p.answer("3"); !m.Result.IsError || !strings.Contains(m.text(), "cmd: it must be a string") {
		t.Errorf("%+v", m)
	}
	p.call(4, "nonsense", `{}`)
	if m = p.answer("4"); m.Error == nil || m.Error.Code != -32602 {
		t.Errorf("%+v", m)
	}
}

// The client sends lines without waiting for answers. They reach the process in their order.
func TestCallsBeginInTheOrderOfTheLines(t *testing.T) {
	p := dial(t, Options{})
	p.greet("2025-06-18", "{}")
	id := p.start(1, `{"cmd":"stty -echo; echo ready; cat","tty":true,"yield_time_ms":250}`)
	p.call(2, "exec_command", `{"cmd":"exec sleep 60","yield_time_ms":30000}`) // the test does not wait for this one
	const writes = 12
	var lines bytes.Buffer
	for i := range writes {
		fmt.Fprintf(&lines, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"write_stdin","arguments":{"session_id":%d,"chars":"<%d>\n"}}}`+"\n", 100+i, id, i)
	}
	lines.WriteString(fmt.Sprintf(`{"jsonrpc":"2.0","id":999,"method":"tools/call","params":{"name":"read_output","arguments":{"session_id":%d}}}`, id) + "\n")
	if _, err := p.in.Write(lines.Bytes()); err != nil {
		t.Fatal(err)
	}
	if m := p.answer("999"); m.Error != nil || m.Result.IsError {
		t.Errorf("%+v", m)
	}
	var want strings.Builder
	for i := range writes {
		fmt.Fprintf(&want, "<%d>\r\n", i)
	}
	try := 2000
	expect.Eventually(t, "everything was written in order", func() bool {
		p.call(try, "read_output", fmt.Sprintf(`{"session_id":%d}`, id))
		m := p.answer(fmt.Sprint(try))
		try++
		return strings.HasSuffix(m.text(), want.String())
	})
}

// A call that fails before it reaches a tool does not hold up the next line.
func TestCallsThatReachNoToolHoldUpNothing(t *testing.T) {
	p := dial(t, Options{})
	p.greet("2025-06-18", "{}")
	for i, params := range []string{``, `,"params":null`, `,"params":7`, `,"params":{}`, `,"params":{"name":5}`, `,"params":{"name":"x"}`,
		`,"params":{"name":"list_processes","arguments":"x"}`, `,"params":{"name":"list_processes","requestState":"x"}`,
		`,"params":{"name":"list_processes","inputResponses":7}`} {
		p.send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call"%s}`, 10+i, params)
		p.send(`{"jsonrpc":"2.0","method":"tools/call"%s}`, params)
		p.call(100+i, "list_processes", `{}`)
		p.answer(fmt.Sprint(100 + i))
	}
}

func TestLinesThatAreNoMessagesAreRefusedAndTheNextOneCounts(t *testing.T) {
	p := dial(t, Options{})
	p.greet("2025-06-18", "{}")
	for _, test := range []struct {
		line string
		code int
		id   string
	}{
		{`junk`, -32700, "null"},
		{`{"jsonrpc":"2.0","id":1,`, -32700, "null"},
		{"\xff\xfe", -32700, "null"},
		{strings.Repeat("[", 1_000_000), -32700, "null"},
		{`{"jsonrpc":"2.0","id":5,"method":"tools/list","params":` + strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_001), -32700, "null"},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, -32600, "null"},
		{`[]`, -32600, "null"},
		{`7`, -32600, "null"},
		{`null`, -32600, "null"},
		{`{}`, -32600, "null"},
		{`{"jsonrpc":"1.0","id":7,"method":"ping"}`, -32600, "7"},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, -32600, "null"},
		{`{"jsonrpc":"2.0","id":"x","method":7}`, -32600, `"x"`},
		{`{"jsonrpc":"2.0","id":8,"method":"` + strings.Repeat("x", MaxMessage) + `"}`, -32600, "null"},
		{`{"jsonrpc":"2.0","id":9,"method":"no/such"}`, -32601, "9"},
		{`{"jsonrpc":"2.0","id":10,"method":"tools/list","params":7}`, -32602, "10"},
	} {
		p.send("%s", test.line)
		if m := p.next(); m.Error == nil || m.Error.Code != test.code || string(m.ID) != test.id {
			t.Errorf("%.80s: %+v", test.line, m)
		}
	}
	for _, line := range []string{"", "   ", `{"jsonrpc":"2.0","id":99,"result":{}}`, `{"jsonrpc":"2.0","method":"notifications/none"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":12345}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled"}`} {
		p.send("%s", line)
	}
	p.send(`{"jsonrpc":"2.0","id":11,"method":"ping"}`)
	if m := p.next(); string(m.ID) != "11" || m.Error != nil {
		t.Errorf("the conversation does not go on: %+v", m)
	}
}

func TestNothingIsDoneBeforeTheHandshake(t *testing.T) {
	p := dial(t, Options{})
	p.call(1, "exec_command", `{"cmd":"touch x"}`)
	if m := p.answer("1"); m.Error == nil {
		t.Errorf("%+v", m)
	}
	p.greet("1999-01-01", "{}") // the server answers with a version that it supports
	p.call(2, "list_processes", `{}`)
	if m := p.answer("2"); m.Error != nil {
		t.Errorf("%+v", m)
	}
}

// pidOf waits for the pid that a command writes.
func pidOf(t *testing.T, file string) int {
	t.Helper()
	pid := 0
	expect.Eventually(t, "the command runs", func() bool {
		content, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(content)))
		return strings.HasSuffix(string(content), "\n")
	})
	return pid
}

func gone(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }

func TestCancellingAnExecEndsItsCommand(t *testing.T) {
	for _, detach := range []bool{false, true} { // a server that outlives its client still ends what the client has cancelled
		p := dial(t, Options{Detach: detach})
		p.greet("2025-06-18", "{}")
		file := filepath.Join(t.TempDir(), "pid")
		p.call(1, "exec_command", fmt.Sprintf(`{"cmd":"echo $$ > %s; exec sleep 600"}`, file))
		pid := pidOf(t, file)
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}`)
		expect.Eventually(t, "the command ends", func() bool { return gone(pid) })
	}
}

func TestCancellingAPollEndsTheWaitOnly(t *testing.T) {
	p := dial(t, Options{})
	p.greet("2025-06-18", "{}")
	id := p.start(1, `{"cmd":"echo ready; exec sleep 60","yield_time_ms":250}`)
	p.call(2, "write_stdin", fmt.Sprintf(`{"session_id":%d,"yield_time_ms":300000}`, id))
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	if m := p.answer("2"); !m.Result.IsError && m.Error == nil {
		t.Errorf("the wait was answered: %+v", m)
	}
	p.call(3, "list_processes", `{}`)
	if m := p.answer("3"); !strings.Contains(m.text(), "Processes: 1") {
		t.Errorf("%+v", m)
	}
}

// The end of the input ends every process: one whose call waits, one in the background, and one that ignores signals.
func TestTheEndOfTheInputEndsEverything(t *testing.T) {
	p := dial(t, Options{})
	p.greet("2025-06-18", "{}")
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	p.start(1, fmt.Sprintf(`{"cmd":"trap '' TERM HUP; echo $$ > %s; (setsid sleep 60 & echo $! > %s); echo ready; while :; do sleep 0.1; done","tty":true,"yield_time_ms":250}`, file("a"), file("b")))
	p.call(2, "exec_command", fmt.Sprintf(`{"cmd":"echo $$ > %s; exec sleep 60","yield_time_ms":30000}`, file("c")))
	pids := []int{pidOf(t, file("a")), pidOf(t, file("b")), pidOf(t, file("c"))}
	p.hangUp()
	for i, pid := range pids {
		if !gone(pid) {
			t.Errorf("process %c lives", 'a'+i)
		}
	}
}

func TestADetachedServerOutlivesItsInput(t *testing.T) {
	p := dial(t, Options{Detach: true})
	p.greet("2025-06-18", "{}")
	dir := t.TempDir()
	gate, file := filepath.Join(dir, "gate"), filepath.Join(dir, "pid")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	p.call(1, "exec_command", fmt.Sprintf(`{"cmd":"echo $$ > %s; read x < %s; echo done >> %[1]s","yield_time_ms":30000}`, file, gate))
	pidOf(t, file)
	_ = p.in.Close()
	held, err := os.OpenFile(gate, os.O_WRONLY, 0) // this returns when the command reads
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.returned:
		t.Error("the server has not waited")
	default:
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	p.hangUp()
	if content, _ := os.ReadFile(file); !strings.HasSuffix(string(content), "done\n") {
		t.Errorf("the command was not left alone: %q", content)
	}
}

// A client that reads nothing does not keep the server from ending.
func TestAClientThatReadsNothingDoesNotKeepTheServer(t *testing.T) {
	p := dial(t, Options{})
	p.greet("2025-06-18", "{}")
	written := make(chan struct{})
	go func() {
		defer close(written)
		for i := range 10_000 { // the loop ends when nothing more is taken
			if _, err := fmt.Fprintf(p.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"list_processes"}}`+"\n", i); err != nil {
				return
			}
		}
		t.Error("everything was taken")
	}()
	expect.Eventually(t, "the answers wait", func() bool { return len(p.lines) == cap(p.lines) })
	p.hangUp()
	<-written
}

func TestProgress(t *testing.T) {
	p := dial(t, Options{})
	p.greet("2025-06-18", "{}")
	dir := t.TempDir()
	gate := filepath.Join(dir, "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exec_command","_meta":{"progressToken":"t1"},"arguments":{"cmd":"echo one; read x < %s; echo two","yield_time_ms":30000}}}`, gate)
	progress := func() (token any, at float64, text string) {
		var m struct {
			Method string
			Params struct {
				ProgressToken any
				Progress      float64
				Message       string
			}
		}
		line := p.line()
		for strings.Contains(line, "notifications/resources/list_changed") { // the list of processes may change at any time
			line = p.line()
		}
		if json.Unmarshal([]byte(line), &m) != nil || m.Method != "notifications/progress" {
			t.Fatalf("this is not progress: %s", line)
		}
		return m.Params.ProgressToken, m.Params.Progress, m.Params.Message
	}
	if token, at, text := progress(); token != "t1" || at != 4 || text != "one\n" {
		t.Error(token, at, text)
	}
	if err := os.WriteFile(gate, []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	if token, at, text := progress(); token != "t1" || at != 8 || text != "two\n" {
		t.Error(token, at, text)
	}
	expect.Contains(t, p.answer("1").text(), "Output:\none\ntwo\n")
	id := p.start(2, `{"cmd":"stty -echo; echo ready; cat","tty":true,"yield_time_ms":250}`)
	p.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"write_stdin","_meta":{"progressToken":7},"arguments":{"session_id":%d,"chars":"x\n","yield_time_ms":30000,"until":"exit"}}}`, id)
	for said := ""; !strings.Contains(said, "x\r\n"); { // on a slow machine the command may not have been ready
		token, _, text := progress()
		if said += text; token != 7.0 {
			t.Error(token, text)
		}
	}
	p.call(4, "exec_command", `{"cmd":"echo hi"}`)
	for {
		line := p.line()
		if strings.Contains(line, "notifications/progress") {
			t.Errorf("progress that nobody asked for: %s", line)
		}
		if strings.Contains(line, `"id":4`) {
			return
		}
	}
}

func FuzzUnderstand(f *testing.F) {
	for _, seed := range []string{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `[]`, `{"jsonrpc":"2.0","id":{},"method":""}`, `{"id":1}`, "\xff", `{"jsonrpc":"2.0","id":null,"result":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		message, refusal := understand(line, nil)
		if message != nil && refusal != nil {
			t.Error("it is both understood and refused")
		}
		if refusal != nil && (!json.Valid(refusal) || bytes.ContainsRune(refusal, '\n')) {
			t.Errorf("%q is no answer", refusal)
		}
	})
}
