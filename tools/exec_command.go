package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// The arguments of exec_command.
const (
	argCmd                   = "cmd"
	argWorkdir               = "workdir"
	argShell                 = "shell"
	argLogin                 = "login"
	argTTY                   = "tty"
	argYield                 = "yield_time_ms"
	argMaxTokens             = "max_output_tokens"
	argView                  = "view"
	argSandboxPermissions    = "sandbox_permissions"
	argJustification         = "justification"
	argPrefixRule            = "prefix_rule"
	argAdditionalPermissions = "additional_permissions"
)

func execCommand(options Options) tool {
	session := options.Session
	shown := []parameter{
		{name: argCmd, kind: text, required: true, about: fmt.Sprintf("The shell script to run, of at most %d bytes.", messages.MaxScript)},
		{name: argWorkdir, kind: text, about: "The working directory, relative to the session's, which is the default."},
	}
	if !options.HideShell {
		shown = append(shown, parameter{name: argShell, kind: text, about: "The shell, by name or path. Default: the user's own."})
	}
	shown = append(shown,
		parameter{name: argLogin, kind: flag, hidden: session.NoLoginShell, about: "Whether the shell is a login shell (-lc instead of -c). Default: true."},
		parameter{name: argTTY, kind: flag, about: "Whether to run it on a terminal, so that it can be written to. Default: false, on pipes without input."},
		parameter{name: argYield, kind: milliseconds, about: fmt.Sprintf("How long to wait for the end before answering with the output so far. Default: %d; other values are brought between %d and %d.",
			ms(messages.DefaultExecYield), ms(messages.MinYield), ms(messages.MaxYield))},
		until,
		maxTokens(session),
		viewed(session),
		parameter{name: argSandboxPermissions, kind: text, about: "What the command may do beyond the session's sandbox. Default: use_default.",
			choices: []string{string(messages.PermissionsUseDefault), string(messages.PermissionsRequireEscalated), string(messages.PermissionsWithAdditional)}},
		parameter{name: argJustification, kind: text, about: "Why it is needed, in one sentence for the person who is asked, if one is."},
		parameter{name: argPrefixRule, kind: texts, about: `The beginning of the command that may be allowed from now on, such as ["git", "pull"].`},
		parameter{name: argAdditionalPermissions, kind: permissions, about: "Only with sandbox_permissions=with_additional_permissions: what the command needs."},
	)
	return tool{Tool: Tool{Name: ExecCommand, Title: "Run a command", Destructive: true, Description: fmt.Sprintf(
		"Runs a command and returns its output, or a session ID for write_stdin if it still runs after yield_time_ms. "+
			"%s At most %d processes live at once: one more ends the least recently used. "+
			"Output that nobody has read is kept up to %d bytes, its first and last half; read_output has more of it.",
		confinement(options), cmp.Or(session.MaxProcesses, execbus.DefaultSessionMaxProcesses), unread)}, parameters: shown, output: outcome(), run: runExec}
}

// confinement tells a model what confines commands, and how to get more.
func confinement(options Options) string {
	session := options.Session
	if session.Sandbox == nil || session.Sandbox.Type == messages.SandboxDangerFullAccess {
		return "Commands run without a sandbox."
	}
	told := fmt.Sprintf("Commands run in a sandbox: %s.", session.Sandbox)
	if session.Sandbox.Type == messages.SandboxWorkspaceWrite {
		told = fmt.Sprintf("Commands run in a sandbox: %s; its workspace is %s.", session.Sandbox, cmp.Or(session.Dir, "the session's directory"))
	}
	told += " Ask for more with " + argSandboxPermissions
	if options.SandboxSettings != "" {
		told += ", or tell the user to change the server's settings " + options.SandboxSettings
	}
	return told + "."
}

// unread is how much output waits for a poll.
const unread = 1 << 20

func maxTokens(session execbus.SessionOptions) parameter {
	return parameter{name: argMaxTokens, kind: whole, about: fmt.Sprintf("The most output to return, in tokens of %d bytes; the middle goes first. Default, and most: %d.",
		messages.BytesPerToken, cmp.Or(session.OutputTokens, messages.DefaultOutputTokens))}
}

// viewed is the form of the output.
func viewed(session execbus.SessionOptions) parameter {
	return parameter{name: argView, kind: text, choices: []string{string(messages.ViewRaw), string(messages.ViewText), string(messages.ViewScreen)},
		about: fmt.Sprintf("How to show output: raw bytes; text without escape sequences, or the screen of a full-screen program; or the screen of the terminal. Default: %s.",
			cmp.Or(session.View, messages.ViewRaw))}
}

// view is the form that the call asks for; empty if it asks for none.
func (a arguments) view() messages.View { return messages.View(a.text(argView)) }

func ms(d time.Duration) int64 { return d.Milliseconds() }

// command is the command that the arguments ask for.
func (s *Set) command(call messages.CallID, a arguments) messages.ExecCommand {
	login := optional[bool](a, argLogin)
	if login == nil && !s.options.Session.NoLoginShell {
		login = new(true) // what models expect of a tool of this name
	}
	return messages.ExecCommand{Call: call, Script: a.text(argCmd), Dir: a.text(argWorkdir), Shell: a.text(argShell),
		Login: login, TTY: a.flag(argTTY), Merged: !s.options.SeparateStreams, Yield: optional[time.Duration](a, argYield),
		Until: untilOf(a), MaxOutputTokens: optional[int](a, argMaxTokens), View: a.view(),
		CommandPolicy: messages.CommandPolicy{
			SandboxPermissions:    messages.SandboxPermissions(a.text(argSandboxPermissions)),
			Justification:         a.text(argJustification),
			PrefixRule:            a.texts(argPrefixRule),
			AdditionalPermissions: additional(a),
		}}
}

func additional(a arguments) *messages.AdditionalPermissions {
	asked, _ := a.values[argAdditionalPermissions].(*messages.AdditionalPermissions)
	return asked
}

func runExec(ctx context.Context, s *Set, call messages.CallID, a arguments) Answer {
	switch {
	case a.text(argCmd) == "":
		return misread(wrong(ExecCommand, argCmd, "it is empty; say what to run"))
	case a.flag(argLogin) && s.options.Session.NoLoginShell:
		return misread(wrong(ExecCommand, argLogin, "login shell is disabled by config; omit `login` or set it to false"))
	}
	result, err := s.session.Exec(ctx, s.command(call, a))
	tried := fmt.Sprintf("exec_command for `%s`", shortened(a.text(argCmd)))
	switch {
	case ctx.Err() != nil && (err == nil && result.Running || errors.Is(err, messages.ErrCancelled)):
		return s.endUnknown(ctx, tried, result, err)
	case err != nil && execbus.IsPatch(s.command(call, a)):
		return s.options.patchFailure(err)
	case err != nil:
		return s.options.refusal(tried, err)
	}
	return s.outcome(result, a)
}

// endUnknown ends the process of a cancelled call, because no caller has learned its id, and says what became of the command.
func (s *Set) endUnknown(ctx context.Context, tried string, result *messages.Result, err error) Answer {
	e := &messages.Error{Code: messages.ErrCancelled, Op: "wait", Detail: "the call was cancelled"}
	var id messages.ProcessID
	if err == nil {
		id = result.Process
	} else {
		e = typed(err)
		number, _ := strconv.Atoi(e.Subject)
		id = messages.ProcessID(number)
	}
	if id == 0 {
		return advised(tried, e, "Nothing was run.")
	}
	end, err := s.session.Terminate(context.WithoutCancel(ctx), messages.Terminate{Process: id, By: messages.TerminatedByUser})
	if err != nil { // it, or the session, has ended already
		end = typed(err).Ended
	}
	if end != nil && end.Cause == messages.CauseAborted && end.Status == messages.StatusNone() && end.Denial == nil {
		return advised(tried, e, "Nothing was run.") // it waited for approval
	}
	return advised(tried, e, "The command was ended with everything it had started. It may have had effects; look at them before you run it again.")
}

// maxShown bounds, in characters, how much of a command an error quotes.
const maxShown = 200

func shortened(script string) string {
	if runes := []rune(script); len(runes) > maxShown {
		return string(runes[:maxShown]) + "…"
	}
	return script
}
