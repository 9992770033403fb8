package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/creack/pty"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tools"
)

// repl is a program that answers lines.
type repl struct {
	name   string
	argv   []string
	prompt string // what it shows at its beginning, last; empty if it shows nothing
	line   string
	answer string // what it shows of the line, last
}

func repls() []repl {
	return []repl{
		{"python3", []string{"python3", "-q"}, ">>> ", "6*7\n", "42\r\n>>> "},
		{"bash", []string{"bash", "--norc", "--noprofile", "-i"}, "ready> ", "echo $((6*7))\n", "42\r\nready> "},
		{"node", []string{"node"}, "\r\n> ", "6*7\n", "42\r\n> "},
		{"sqlite3", []string{"sqlite3"}, "sqlite> ", "select 6*7;\n", "42\r\nsqlite> "},
		{"bc", []string{"bc", "-q"}, "", "6*7\n", "42\r\n"},
		{"cat", []string{"cat"}, "", "hello\n", "hello\r\nhello\r\n"},
	}
}

// found finds the program. What python3 stands for may be a script of a version manager, which runs other programs first.
func (r repl) found() repl {
	r.argv = slices.Clone(r.argv)
	r.argv[0] = get(exec.LookPath(r.argv[0]))
	if r.name == "python3" {
		r.argv[0] = strings.TrimSpace(string(get(exec.Command("python3", "-c", "import sys; print(sys.executable)").Output())))
	}
	return r
}

const (
	// soonMore is how much later than the bare way an answer may come that a call waits for, and defaultMore one that comes by default:
	// programs with a line editor read keys, and for that the screen has to be still.
	soonMore    = 5
	defaultMore = 160
	// mcpMore is soonMore, and the way to the server and back.
	mcpMore = 8
)

func untilRows() (all []row) {
	for _, r := range repls() {
		metrics := answerMetrics("line", soonMore, defaultMore)
		if r.prompt != "" {
			metrics = append(metrics, startMetrics(soonMore, defaultMore)...)
		}
		all = append(all, row{name: "until " + r.name, about: "a line to " + r.name + " until it waits for the next one, and its start until then", open: answers(r),
			metrics: append(metrics, metric{name: "too early", of: "early", at: 1, unit: pieces, judge: most})})
	}
	return append(all,
		row{name: "until-mcp", about: "the same with python3, through a server for MCP", open: answersByMCP, metrics: append(append(
			answerMetrics("line", mcpMore, defaultMore+mcpMore-soonMore), startMetrics(mcpMore, defaultMore+mcpMore-soonMore)...),
			metric{name: "too early", of: "early", at: 1, unit: pieces, judge: most})})
}

// answerMetrics are those of a call that waits for input, and of one that does not say what it waits for.
func answerMetrics(name string, soon, byDefault float64) []metric {
	return []metric{{name: name, of: name, unit: milliseconds, judge: moreMost, limit: soon},
		{name: name + " by default", of: name + " by default", unit: milliseconds, judge: moreMost, limit: byDefault}}
}

// startMetrics are those of a start. A program may work on after it has shown its prompt: beside "prompt" the bare way does not wait for
// the end of that.
func startMetrics(soon, byDefault float64) []metric {
	return append(answerMetrics("start", soon, byDefault), metric{name: "start, beside its prompt alone", of: "prompt", unit: milliseconds})
}

// bareTerminal is a program on a terminal, and a loop that reads what it shows.
type bareTerminal struct {
	cmd   *exec.Cmd
	file  *os.File
	shown []byte
}

func bareStart(argv, env []string) *bareTerminal { return bareStartIn(root, argv, env) }

// root is where programs start: some look for settings in their directory and all above it.
const root = "/"

func bareStartIn(dir string, argv, env []string) *bareTerminal {
	b := &bareTerminal{cmd: exec.Command(argv[0], argv[1:]...)}
	b.cmd.Env, b.cmd.Dir = env, dir
	b.file = get(pty.Start(b.cmd))
	return b
}

// until reads until the program has shown a text, last.
func (b *bareTerminal) until(text string) {
	b.read(func() bool { return bytes.HasSuffix(b.shown, []byte(text)) })
}

// read reads until enough was shown.
func (b *bareTerminal) read(enough func() bool) {
	must(b.file.SetReadDeadline(time.Now().Add(patience)))
	for buffer := make([]byte, batch); !enough(); {
		n, err := b.file.Read(buffer)
		if b.shown = append(b.shown, buffer[:n]...); err != nil {
			must(fmt.Errorf("%q did not show what it should, but %q: %w", b.cmd.Args, b.shown, err))
		}
	}
	b.shown = b.shown[:0]
}

// waits waits until the program sleeps in a call that waits for its terminal, as the kernel names it.
func (b *bareTerminal) waits() {
	path := fmt.Sprintf("/proc/%d/wchan", b.cmd.Process.Pid)
	for began := time.Now(); time.Since(began) < patience; time.Sleep(50 * time.Microsecond) {
		if at := string(get(os.ReadFile(path))); strings.Contains(at, "poll") || strings.Contains(at, "select") || at == "wait_woken" || at == "n_tty_read" {
			return
		}
	}
	must(fmt.Errorf("%q does not wait for its terminal", b.cmd.Args))
}

func (b *bareTerminal) line(text, answer string) {
	get(b.file.WriteString(text))
	b.until(answer)
}

func (b *bareTerminal) end() {
	_ = b.cmd.Process.Kill()
	_ = b.file.Close()
	_ = b.cmd.Wait()
}

// dialogue is a program that is talked to by calls. Until nil stands for the defaults of tools.
type dialogue interface {
	// start starts the program, and returns what it has shown, and whether it runs.
	start(ctx context.Context, until *messages.Until) (shown string)
	line(ctx context.Context, text string, until *messages.Until) (shown string)
	// more returns what has come since, after a while.
	more(ctx context.Context) (shown string)
	end(ctx context.Context)
}

// compare lets a program start and answer lines, by calls and bare.
func compare(ctx context.Context, s *scope, r repl, env []string, open func() dialogue) pair {
	ways := map[string]*messages.Until{"": {AwaitingInput: true}, " by default": nil}
	bare := bareStart(r.argv, env)
	s.after(bare.end)
	bare.until(r.prompt)
	kept := map[string]dialogue{}
	for way := range ways {
		kept[way] = open()
		s.after(func() { kept[way].end(context.Background()) })
		first := ways[way]
		if r.prompt == "" { // a call that says nothing would wait for something to be shown
			first = ways[""]
		}
		complete(ctx, kept[way], kept[way].start(ctx, first), r.prompt)
	}
	return pair{turns: s.some(4, 2), bare: func(_ context.Context, took series) {
		for range 2 { // each is compared with both ways of calls
			began := time.Now()
			bare.line(r.line, r.answer)
			took.both("line", millis(time.Since(began)))
		}
		if r.prompt != "" {
			began := time.Now()
			started := bareStart(r.argv, env)
			started.until(r.prompt)
			took.add("prompt", millis(time.Since(began)))
			started.waits()
			took.both("start", millis(time.Since(began)))
			started.end()
		}
	}, ours: func(ctx context.Context, took series) {
		for way, until := range ways {
			began := time.Now()
			shown := kept[way].line(ctx, r.line, until)
			took.add("line"+way, millis(time.Since(began)))
			took.add("early", complete(ctx, kept[way], shown, r.answer))
			if r.prompt == "" {
				continue
			}
			d := open()
			began = time.Now()
			shown = d.start(ctx, until)
			took.add("start"+way, millis(time.Since(began)))
			if until != nil {
				took.add("prompt", millis(time.Since(began)))
			}
			took.add("early", complete(ctx, d, shown, r.prompt))
			d.end(ctx)
		}
	}}
}

// both notes what the bare way took, with which both ways of calls are compared.
func (s series) both(name string, value float64) {
	s.add(name, value)
	s.add(name+" by default", value)
}

// complete returns 1 if an answer came before all was shown, and waits for the rest.
func complete(ctx context.Context, d dialogue, shown, want string) (early float64) {
	for began := time.Now(); !strings.HasSuffix(shown, want); shown += d.more(ctx) {
		if early = 1; time.Since(began) > patience {
			must(fmt.Errorf("it did not show %q, but %q", want, shown))
		}
	}
	return early
}

// calls talks by the calls of a session.
type calls struct {
	session *execbus.Session
	argv    []string
	process messages.ProcessID
}

func (c *calls) start(ctx context.Context, until *messages.Until) string {
	return c.shown(c.session.Exec(ctx, messages.ExecCommand{Argv: c.argv, Dir: root, TTY: true, Until: until, Grace: new(time.Duration(0))}))
}

func (c *calls) line(ctx context.Context, text string, until *messages.Until) string {
	return c.shown(c.session.Write(ctx, messages.WriteStdin{Process: c.process, Bytes: []byte(text), Until: until}))
}

func (c *calls) more(ctx context.Context) string {
	return c.shown(c.session.Poll(ctx, messages.Poll{Process: c.process, Yield: new(messages.MinYield), Until: &messages.Until{}}))
}

func (c *calls) shown(result *messages.Result, err error) string {
	must(err)
	if !result.Running {
		must(fmt.Errorf("%q ended with %s: %q", c.argv, result.Status, result.Output))
	}
	c.process = result.Process
	return string(result.Output)
}

func (c *calls) end(ctx context.Context) {
	_, _ = c.session.Terminate(ctx, messages.Terminate{Process: c.process})
}

// answers compares calls of a session that answers early with the bare loop.
func answers(r repl) opener {
	return func(ctx context.Context, s *scope) pair {
		r := r.found()
		must(os.Setenv("PS1", "ready> "))
		_, session := s.open(execbus.Options{}, execbus.SessionOptions{AnswerEarly: true})
		return compare(ctx, s, r, environmentOf(ctx, session), func() dialogue { return &calls{session: session, argv: r.argv} })
	}
}

// toolCalls talks by the tools of a server for MCP.
type toolCalls struct {
	*mcp
	command string
	id      int
}

// call calls a tool.
func (c *toolCalls) call(name string, arguments map[string]any, until *messages.Until) string {
	if until != nil {
		arguments["until"] = "awaiting_input"
	}
	o := get(c.tool(name, arguments))
	if o.SessionID == nil {
		must(fmt.Errorf("%s: %s: %q", c.command, o.State, o.Output))
	}
	c.id = *o.SessionID
	return o.Output
}

func (c *toolCalls) start(_ context.Context, until *messages.Until) string {
	return c.call(tools.ExecCommand, map[string]any{"cmd": c.command, "shell": "bash", "login": false, "tty": true}, until)
}

func (c *toolCalls) line(_ context.Context, text string, until *messages.Until) string {
	return c.call(tools.WriteStdin, map[string]any{"session_id": c.id, "chars": text}, until)
}

func (c *toolCalls) more(context.Context) string {
	return c.call(tools.WriteStdin, map[string]any{"session_id": c.id, "yield_time_ms": messages.MinYield.Milliseconds(), "until": "exit"}, nil)
}

func (c *toolCalls) end(context.Context) {
	_ = c.ask("tools/call", fmt.Sprintf(`{"name":"terminate_process","arguments":{"session_id":%d}}`, c.id))
}

// tool calls a tool, and returns the structured answer.
func (m *mcp) tool(name string, arguments map[string]any) (o tools.Outcome, err error) {
	params, err := json.Marshal(map[string]any{"name": name, "arguments": arguments})
	if err != nil {
		return o, err
	}
	answer, err := m.request("tools/call", string(params))
	if err != nil {
		return o, err
	}
	var result struct{ StructuredContent tools.Outcome }
	err = json.Unmarshal(answer, &result)
	return result.StructuredContent, err
}

// answersByMCP compares the tools of a server with the bare loop; both start a shell that becomes the program.
func answersByMCP(ctx context.Context, s *scope) pair {
	r := repls()[0].found()
	server := s.mcp(ctx)
	command := "exec " + strings.Join(r.argv, " ")
	r.argv = []string{"bash", "-c", command}
	return compare(ctx, s, r, append(os.Environ(), "TERM=dumb"), func() dialogue { return &toolCalls{mcp: server, command: command} })
}
