package tools_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/expect"
	"github.com/execbus/execbus/tools"
)

func TestReadOutput(t *testing.T) {
	set, _ := open(t)
	id := start(t, set, "seq 1 2000; echo MARK; exec sleep 60")
	expect.Eventually(t, "all output is there", func() bool {
		return strings.HasSuffix(call(t, set, "read_output", fmt.Sprintf(`{"session_id":%d,"tail":5}`, id)).Text, "MARK\n")
	})
	read := func(arguments string) tools.Reading {
		t.Helper()
		return structured[tools.Reading](t, call(t, set, "read_output", fmt.Sprintf(`{"session_id":%d%s}`, id, arguments)))
	}
	const total = 9*2 + 90*3 + 900*4 + 1001*5 + 5
	if r := read(""); r.Offset != 0 || r.NextOffset != total || r.TotalBytes != total || r.Ended || !strings.HasPrefix(r.Output, "1\n2\n3\n") {
		t.Errorf("everything: %+v", r)
	}
	if r := read(`,"offset":2,"length":4`); r.Output != "2\n3\n" || r.Offset != 2 || r.NextOffset != 6 {
		t.Errorf("a range: %+v", r)
	}
	if r := read(`,"tail":10`); r.Output != "2000\nMARK\n" || r.Offset != total-10 {
		t.Errorf("the tail: %+v", r)
	}
	if answer := call(t, set, "read_output", fmt.Sprintf(`{"session_id":%d,"offset":1000000}`, id)); answer.Err == nil || answer.Err.Code != messages.ErrOutputUnretained {
		t.Errorf("after the end: %+v", answer)
	}
	if r := read(`,"pattern":"^(7|MA.*|.*99)$"`); len(r.Matches) != 22 || r.Matches[0] != (tools.Match{Offset: 12, Number: 7, Line: "7"}) ||
		r.Matches[21] != (tools.Match{Offset: total - 5, Number: 2001, Line: "MARK"}) || r.Output != "" {
		t.Errorf("a pattern: %+v", r)
	}
	if r := read(`,"line":7,"length":4`); r.Output != "7\n8\n" || r.Offset != 12 {
		t.Errorf("a line: %+v", r)
	}
	if r := read(`,"pattern":"MARK","before":2,"after":1,"line":1000`); len(r.Matches) != 3 ||
		r.Matches[0] != (tools.Match{Offset: total - 15, Number: 1999, Line: "1999", Around: true}) || r.Matches[2].Around || r.NextOffset != total {
		t.Errorf("a pattern with lines around it: %+v", r)
	}
	for argument, says := range map[string]string{`,"line":0`: "no line 0", `,"line":1,"offset":1`: "cannot be combined", `,"line":1,"tail":1`: "cannot be combined",
		`,"offset":1000000,"pattern":"x"`: "there is none yet", `,"line":9000`: "there is none"} {
		if answer := call(t, set, "read_output", fmt.Sprintf(`{"session_id":%d%s}`, id, argument)); answer.Err == nil || !strings.Contains(answer.Text, says) {
			t.Errorf("%s: %+v", argument, answer)
		}
	}
	r := read(`,"pattern":"1"`)
	if len(r.Matches) != 200 || r.NextOffset >= total {
		t.Errorf("more matches than one answer has: %d, %d", len(r.Matches), r.NextOffset)
	}
	if more := read(fmt.Sprintf(`,"pattern":"1","offset":%d`, r.NextOffset)); more.Matches[0].Offset < r.NextOffset || more.Matches[0].Line == r.Matches[199].Line {
		t.Errorf("they go on at %+v", more.Matches[0])
	}
	if answer := call(t, set, "terminate_process", fmt.Sprintf(`{"session_id":%d}`, id)); answer.Err != nil {
		t.Fatal(answer.Text)
	}
	if r := read(`,"tail":5`); r.Output != "MARK\n" || !r.Ended {
		t.Errorf("after the end: %+v", r)
	}
}

func TestReadOutputSaysWhatIsNotKept(t *testing.T) {
	set, _ := open(t)
	id := start(t, set, "head -c 4000000 /dev/zero | tr '\\0' x; exec sleep 60")
	expect.Eventually(t, "all output is there", func() bool {
		return structured[tools.Reading](t, call(t, set, "read_output", fmt.Sprintf(`{"session_id":%d,"tail":1}`, id))).TotalBytes == 4_000_000
	})
	answer := call(t, set, "read_output", fmt.Sprintf(`{"session_id":%d,"offset":1000000,"length":10}`, id))
	if r := structured[tools.Reading](t, answer); r.MissedBytes == 0 || r.Offset != 1_000_000+r.MissedBytes || r.Output != "xxxxxxxxxx" {
		t.Errorf("%+v", r)
	}
	expect.Contains(t, answer.Text, "bytes before them are not kept any more")
}

func TestListProcesses(t *testing.T) {
	set, _ := open(t)
	expect.Contains(t, call(t, set, "list_processes", `{}`).Text, "Processes: 0")
	id := start(t, set, "exec sleep 60", `"tty":true`)
	listing := structured[tools.Listing](t, call(t, set, "list_processes", ``))
	if len(listing.Processes) != 1 || listing.Processes[0].SessionID != id || listing.Processes[0].Command != "exec sleep 60" || !listing.Processes[0].TTY || listing.Processes[0].State != "running" {
		t.Errorf("%+v", listing)
	}
	if answer := call(t, set, "terminate_process", fmt.Sprintf(`{"session_id":%d,"grace_ms":0}`, id)); answer.Err != nil {
		t.Fatal(answer.Text)
	}
	if listing = structured[tools.Listing](t, call(t, set, "list_processes", `{}`)); len(listing.Processes) != 0 {
		t.Errorf("%+v", listing)
	}
	answer := call(t, set, "list_processes", `{"include_ended":true}`)
	if listing = structured[tools.Listing](t, answer); len(listing.Processes) != 1 || *listing.Processes[0].ExitCode != 137 {
		t.Errorf("%+v", listing)
	}
	expect.Contains(t, answer.Text, fmt.Sprintf("%d was terminated on request (signal 9): exec sleep 60", id))
}

func TestTerminateProcessEndsTheTree(t *testing.T) {
	set, _ := open(t)
	id := startReady(t, set, "sleep 60 & sleep 61 & echo ready; wait")
	answer := call(t, set, "terminate_process", fmt.Sprintf(`{"session_id":%d}`, id))
	if r := structured[tools.Termination](t, answer); r.Background != 2 || *r.ExitCode != 143 || len(r.Survivors) > 0 {
		t.Errorf("%+v", r)
	}
	expect.Contains(t, answer.Text, "was terminated on request", "Background processes ended with it: 2")
	if answer := call(t, set, "terminate_process", fmt.Sprintf(`{"session_id":%d}`, id)); answer.Err == nil || answer.Err.Code != messages.ErrProcessEnded {
		t.Errorf("%+v", answer)
	}
}

func TestSignalsByTheirNames(t *testing.T) {
	set, _ := open(t)
	for _, name := range []string{"usr1", "SIGUSR1", "USR1"} {
		id := startReady(t, set, "trap 'echo caught; exit 5' USR1; echo ready; while :; do sleep 0.02; done")
		expect.Contains(t, call(t, set, "send_signal", fmt.Sprintf(`{"session_id":%d,"signal":%q}`, id, name)).Text, "SIGUSR1 was sent to process")
		o := structured[tools.Outcome](t, call(t, set, "write_stdin", fmt.Sprintf(`{"session_id":%d,"no_timeout":true}`, id)))
		if *o.ExitCode != 5 || !strings.Contains(o.Output, "caught\n") {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

func TestResize(t *testing.T) {
	set, _ := open(t)
	id := startReady(t, set, "stty -echo; echo ready; while read x; do stty size; done", `"tty":true`)
	expect.Contains(t, call(t, set, "resize", fmt.Sprintf(`{"session_id":%d,"rows":33,"cols":111}`, id)).Text, "33 rows and 111 columns")
	call(t, set, "write_stdin", fmt.Sprintf(`{"session_id":%d,"chars":"\n"}`, id))
	expect.Eventually(t, "stty tells the size", func() bool {
		return strings.Contains(call(t, set, "read_output", fmt.Sprintf(`{"session_id":%d}`, id)).Text, "33 111")
	})
	pipes := start(t, set, "exec sleep 60")
	if answer := call(t, set, "resize", fmt.Sprintf(`{"session_id":%d,"rows":33,"cols":111}`, pipes)); answer.Err == nil || answer.Err.Code != messages.ErrNotATerminal {
		t.Errorf("%+v", answer)
	}
}

// Two waits on two processes go on at the same time.
func TestCallsOnTwoProcessesMakeProgressTogether(t *testing.T) {
	set, _ := open(t)
	a, b := start(t, set, "read x; echo a$x", `"tty":true`), start(t, set, "read x; echo b$x", `"tty":true`)
	write := func(id int, chars string, yield int) *tools.Call {
		return set.Begin(t.Context(), tools.Request{Name: "write_stdin",
			Arguments: json.RawMessage(fmt.Sprintf(`{"session_id":%d,"chars":%q,"yield_time_ms":%d,"until":"exit"}`, id, chars, yield))})
	}
	first, second := write(a, "", 30000), write(b, "1\n", 30000)
	expect.Contains(t, second.Answer().Text, "b1") // while the first one waits
	write(a, "2\n", 30000)
	expect.Contains(t, first.Answer().Text, "Process running")
}

// One pipe for both streams keeps the order of the writes; two pipes do not.
func TestOutputAndErrorsComeInTheOrderInWhichTheyWereWritten(t *testing.T) {
	set, session := open(t)
	streams, err := session.Events(execbus.Watch{Name: "test", Kinds: []messages.EventKind{messages.KindOutputDelta}})
	if err != nil {
		t.Fatal(err)
	}
	defer streams.Close()
	want := strings.Repeat("out\nerr\n", 50)
	o := structured[tools.Outcome](t, call(t, set, "exec_command",
		`{"cmd":"i=0; while [ $i -lt 50 ]; do echo out; echo err >&2; i=$((i+1)); done","yield_time_ms":30000}`))
	if o.Output != want {
		t.Errorf("the output is %q", o.Output)
	}
	event, err := streams.Next(t.Context())
	if e, is := event.(messages.OutputDelta); err != nil || !is || e.Stream != messages.StreamStdout {
		t.Errorf("the stream is %+v, %v", event, err)
	}
}

func TestAHostCanHaveSeparateStreams(t *testing.T) {
	set, session := open(t, tools.Options{Session: execbus.SessionOptions{NoLoginShell: true}, SeparateStreams: true})
	streams, err := session.Events(execbus.Watch{Name: "test", Kinds: []messages.EventKind{messages.KindOutputDelta}})
	if err != nil {
		t.Fatal(err)
	}
	defer streams.Close()
	call(t, set, "exec_command", `{"cmd":"echo err >&2","yield_time_ms":30000}`)
	event, err := streams.Next(t.Context())
	if e, is := event.(messages.OutputDelta); err != nil || !is || e.Stream != messages.StreamStderr {
		t.Errorf("the stream is %+v, %v", event, err)
	}
}

func TestAWriteToAPrunedProcessSaysThatItMadeRoom(t *testing.T) {
	set, _ := open(t, tools.Options{Session: execbus.SessionOptions{NoLoginShell: true, MaxProcesses: 12}})
	first := startReady(t, set, "echo ready; exec sleep 600", `"tty":true`)
	for range 12 { // those that were used last are not pruned
		start(t, set, "exec sleep 600", `"tty":true`)
	}
	for _, chars := range []string{"", "x"} {
		answer := call(t, set, "write_stdin", fmt.Sprintf(`{"session_id":%d,"chars":%q}`, first, chars))
		t.Log(answer.Text)
		expect.Contains(t, answer.Text, "to make room for another command")
	}
}
