package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// question does the part of a verb that needs the session, outside the host's loop. It returns the text to show.
type question func(ctx context.Context) (string, error)

// verb is a line with a colon in front. begin reads the arguments, in the host's loop. It may return no question.
type verb struct {
	name, arguments, help string
	begin                 func(h *host, arguments string) (question, error)
}

// verbTime bounds a question. An operation that has begun continues after that.
const verbTime = 10 * time.Second

func verbs() []verb {
	return []verb{
		{"ps", "", "list running commands", listProcesses},
		{"fg", "ID", "give it every key and the whole terminal, until it ends or you type Ctrl-]", foreground},
		{"in", "ID TEXT", `type TEXT and Enter; "TEXT\x03", in quotes with Go's escapes: these bytes, no Enter`, typeText},
		{"read", "ID [RANGE]", "remembered output: the last N bytes, or FROM-END, or FROM-; else the last 4096", readOutput},
		{"resize", "ID ROWSxCOLS", "change the size of its terminal", resizeTerminal},
		{"int", "ID", "interrupt it, as Ctrl-C does", interruptProcess},
		{"eof", "ID", "end its input, as Ctrl-D does", closeInput},
		{"kill", "ID", "end it and everything it started", killProcess},
		{"cd", "DIR", "run later commands in DIR", changeDir},
		{"policy", "", "show the policies: approval, sandbox, rule files", showPolicy},
		{"grants", "", "list what you allowed for this session", listGrants},
		{"revoke", "GRANT", "revoke it: you will be asked again about the next such command", revokeGrant},
		{"events", "", "show all events, or stop showing them", toggleEvents},
		{"stats", "", "show counters", showStats},
		{"help", "", "this list", showHelp},
		{"quit", "", "end everything, and the demo", quitDemo},
	}
}

// panicVariable makes :panic crash the demo, for the test that looks at the terminal afterwards.
const panicVariable = "EXECBUS_DEMO_TEST_PANIC"

// badUsage is an error in an entered line.
type badUsage string

func (b badUsage) Error() string { return string(b) }

// verb handles a line that begins with a colon.
func (h *host) verb(text string, done func(code int)) {
	name, arguments, _ := strings.Cut(text, " ")
	for _, v := range verbs() {
		if v.name != name {
			continue
		}
		ask, err := v.begin(h, strings.TrimSpace(arguments))
		if err != nil {
			h.view.fail(fmt.Errorf("%w; usage: :%s %s", err, v.name, v.arguments))
			done(2)
			return
		}
		if ask == nil {
			done(0)
			return
		}
		go h.ask(ask, done)
		return
	}
	if name == "panic" && os.Getenv(panicVariable) != "" {
		go panic("as the test wanted")
		return
	}
	h.view.fail(badUsage(fmt.Sprintf("there is no :%s; :help lists what there is", name)))
	done(2)
}

func (h *host) ask(ask question, done func(code int)) {
	ctx, cancel := context.WithTimeout(context.Background(), verbTime)
	defer cancel()
	text, err := ask(ctx)
	h.tell(func() { h.reply(text, err, done) })
}

// reply shows the result of a question.
func (h *host) reply(text string, err error, done func(code int)) {
	if text != "" {
		h.view.answer(text)
	}
	code := 0
	if err != nil && !h.quitting {
		h.view.fail(err)
		code = 1
	}
	done(code)
}

// target splits the id of a process from the other arguments.
func target(arguments string) (id messages.ProcessID, rest string, err error) {
	number, rest, _ := strings.Cut(arguments, " ")
	if number == "" {
		return 0, "", badUsage("which process? :ps lists them")
	}
	n, err := strconv.Atoi(number)
	if err != nil {
		return 0, "", badUsage(fmt.Sprintf("%q is not the number of a process; :ps lists them", number))
	}
	return messages.ProcessID(n), strings.TrimLeft(rest, " "), nil
}

// on returns a verb's question about one process, for verbs without further arguments.
func on(arguments string, ask func(ctx context.Context, id messages.ProcessID) (string, error)) (question, error) {
	id, rest, err := target(arguments)
	if err == nil && rest != "" {
		err = badUsage(fmt.Sprintf("%q is too much", rest))
	}
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (string, error) { return ask(ctx, id) }, nil
}

func listProcesses(h *host, _ string) (question, error) {
	return func(ctx context.Context) (string, error) {
		list, err := h.session.List(ctx)
		if err != nil {
			return "", err
		}
		if len(list) == 0 {
			return "Nothing runs.\n", nil
		}
		var b strings.Builder
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "ID\tSTATE\tPID\tAGE\tCOMMAND")
		for _, p := range list {
			fmt.Fprintf(table, "%d\t%s\t%d\t%v\t%s\n", p.Process, p.State, p.PID, time.Since(p.Began).Round(time.Second), execbus.CleanLine(p.Label, false))
		}
		err = table.Flush()
		return b.String(), err
	}, nil
}

func typeText(h *host, arguments string) (question, error) {
	id, text, err := target(arguments)
	if err != nil {
		return nil, err
	}
	text += "\r" // the Enter key sends this; a terminal in line mode makes it a newline
	if strings.HasPrefix(text, `"`) {
		if text, err = strconv.Unquote(strings.TrimSuffix(text, "\r")); err != nil {
			return nil, badUsage("the text begins with a quote but is not a Go string")
		}
	}
	return func(ctx context.Context) (string, error) {
		_, err := h.session.Write(ctx, messages.WriteStdin{Process: id, Bytes: []byte(text), UntilTaken: true, Patience: new(verbTime / 2)})
		return "", err
	}, nil
}

func resizeTerminal(h *host, arguments string) (question, error) {
	id, rest, err := target(arguments)
	if err != nil {
		return nil, err
	}
	rows, cols, _ := strings.Cut(rest, "x")
	r, badRows := strconv.ParseUint(rows, 10, 16)
	c, badCols := strconv.ParseUint(cols, 10, 16)
	if badRows != nil || badCols != nil || r == 0 || c == 0 {
		return nil, badUsage(fmt.Sprintf("%q is not a size; use for example 40x120", rest))
	}
	return func(ctx context.Context) (string, error) {
		if err := h.session.Resize(ctx, messages.Resize{Process: id, Size: messages.Size{Rows: uint16(r), Cols: uint16(c)}}); err != nil {
			return "", err
		}
		return fmt.Sprintf("The terminal of [%d] is %dx%d now.\n", id, r, c), nil
	}, nil
}

func interruptProcess(h *host, arguments string) (question, error) {
	return on(arguments, func(ctx context.Context, id messages.ProcessID) (string, error) {
		return "", h.session.Signal(ctx, messages.Signal{Process: id, Signal: syscall.SIGINT})
	})
}

func closeInput(h *host, arguments string) (question, error) {
	return on(arguments, func(ctx context.Context, id messages.ProcessID) (string, error) {
		return "", h.session.CloseStdin(ctx, messages.CloseStdin{Process: id})
	})
}

func killProcess(h *host, arguments string) (question, error) {
	return on(arguments, func(ctx context.Context, id messages.ProcessID) (string, error) {
		_, err := h.session.Terminate(ctx, messages.Terminate{Process: id}) // an event says how it ended
		return "", err
	})
}

func changeDir(h *host, arguments string) (question, error) {
	if arguments == "" {
		return nil, badUsage("where to?")
	}
	return func(ctx context.Context) (string, error) {
		err := h.session.UpdateEnvironment(ctx, messages.UpdateEnvironment{Dir: &arguments})
		if err == nil {
			h.tell(func() {
				if !filepath.IsAbs(arguments) {
					arguments = filepath.Join(h.dir, arguments)
				}
				h.dir = arguments
			})
		}
		return "", err
	}, nil
}

func toggleEvents(h *host, _ string) (question, error) {
	h.showEvents = !h.showEvents
	if h.showEvents {
		h.view.note("Events are shown. :events again stops that.")
	} else {
		h.view.note("Events are no longer shown.")
	}
	return nil, nil
}

func showStats(h *host, _ string) (question, error) {
	return func(ctx context.Context) (string, error) {
		s, err := h.rt.Stats(ctx)
		if err != nil {
			return "", err
		}
		text := fmt.Sprintf("processes: %d running, %d started\n", s.Processes, s.Started)
		for _, cause := range sorted(s.Ended) {
			text += fmt.Sprintf("ended: %d %s\n", s.Ended[cause], cause)
		}
		return text + fmt.Sprintf("events: %d published, %d dropped for slow subscribers, %d subscriptions\n",
			s.Bus.Published, s.Bus.Dropped, s.Bus.Subscriptions), nil
	}, nil
}

func showHelp(h *host, _ string) (question, error) {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, v := range verbs() {
		fmt.Fprintf(table, ":%s %s\t%s\n", v.name, v.arguments, v.help)
	}
	fmt.Fprintln(table, "y a p n x\tanswer a question: once, for the session, always, no with a word why, stop")
	fmt.Fprintln(table, "Ctrl-C\tx if there is a question, else interrupt the command in front; on an empty line, else the one started last")
	fmt.Fprintln(table, "Ctrl-D\ton an empty line: :quit")
	fmt.Fprintln(table, "anything else\ta script for your shell; each has a shell of its own")
	err := table.Flush()
	h.view.answer(b.String())
	return nil, err
}

func quitDemo(h *host, _ string) (question, error) {
	h.quit(h.code)
	return nil, nil
}
