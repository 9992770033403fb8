package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

func runUsage() string {
	return `Usage:
  execbus run [SETTING]... -- COMMAND [ARGUMENT]...

Runs one command in a sandbox, on this terminal or these pipes, and ends everything that it started. If a command needs an
approval, run asks on the terminal, even if input and output are pipes. Without a terminal it rejects the command.
SIGINT, SIGTERM, SIGHUP and SIGQUIT go to the command. A second SIGTERM ends it with everything that it started.

` + settingsHelp("run") + `
Exit codes: the command's own; 128+N if it died of signal N; 0 when --until is met, and 123 if the command exits with 0 before that,
which also counts if it exits right after what it prints; 124 after --timeout; 125 if it was refused; 126 if it cannot be executed;
127 if there is no such program; 2 for wrong usage or settings; 1 if execbus failed.

Examples:
  execbus run --sandbox read-only -- ls
  execbus run --timeout 10m --writable ../cache -- make test
  execbus run --rules project.rules --executions enforce -- make release
  execbus run --allow-host registry.npmjs.org -- npm ci --cache .npm
  execbus run --approval untrusted --rules project.rules -- git push
  execbus run --timeout 1m --until '{"listening":8080}' --network -- npm start
  execbus run --no-tty --json -- make | jq -r 'select(.kind == "exec_ended") | .cause'
  EXECBUS_NETWORK=true execbus run -- curl -sI https://example.com
`
}

// Exit codes as shells and timeout(1) use them.
const (
	exitNotMet    = 123
	exitTimedOut  = 124
	exitRefused   = 125
	exitNoExecute = 126
	exitNoProgram = 127
)

// order is one command to run.
type order struct {
	*config
	argv     []string
	std      streams
	terminal *terminal         // the caller's; nil if the caller is on pipes
	person   *person           // nil if nobody can be asked
	met      chan messages.Met // has the reason for which --until has ended the command; closed without one if it has not; nil without --until
}

// runCommand runs "run".
func runCommand(args []string, std streams) int {
	o := order{config: &config{sandbox: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}}, std: std}
	var code int
	var done bool
	if o.argv, code, done = configure("run", runUsage(), o.config, args, std); done {
		return code
	}
	if len(o.argv) == 0 {
		return misused(std, "name a command", runUsage())
	}
	if err := o.settle("--cd", o.cd, std); err != nil {
		return failed(std, err)
	}
	return o.run()
}

// run runs the command and returns the exit code.
func (o *order) run() int {
	ctx := context.Background() // signals go to the command
	rt, err := o.start(o.std)
	if err != nil {
		return failed(o.std, err)
	}
	defer func() {
		if err := shutdown(rt); err != nil {
			_ = failed(o.std, err)
		}
	}()
	o.terminal = attach(o.std)
	defer o.terminal.detach()
	options := o.session()
	options.Record.Notice = func(text string) { o.say(text) } // also while the runtime ends, when nobody reads events any more
	if c := &options.Record; c.Dir != "" && !isDir(c.Dir) {
		c.Dir, c.File = "", c.Dir
	}
	options.Environment = messages.EnvironmentPolicy{Exact: true, Set: environment()}
	if o.person = findPerson(o.terminal); o.person != nil {
		defer o.person.leave()
		o.std.out, o.std.err = o.person.behind(o.std.out), o.person.behind(o.std.err)
		options.Approver = o.person
	}
	session, err := rt.OpenSession(options)
	if err != nil {
		return o.refused(err)
	}
	events, err := session.Events(execbus.Watch{Lossless: true, Name: "execbus run", Calls: []messages.CallID{"run"}})
	if err != nil {
		return o.refused(err)
	}
	defer events.Close()
	answer := make(chan error, 1)
	go func() {
		result, err := session.Exec(ctx, o.command())
		if err == nil && result.Patch != nil {
			err = applied{result.Patch}
		}
		answer <- err
	}()
	return o.report(ctx, session, events, answer)
}

// applied is the answer to a command that was a patch: no process was started.
type applied struct{ *messages.PatchResult }

func (a applied) Error() string { return a.Summary }

// command returns the call that runs the command.
func (o *order) command() messages.ExecCommand {
	tty := o.terminal != nil && o.terminal.whole
	if o.tty != nil {
		tty = *o.tty
	}
	shown := o.terminal != nil && o.terminal.whole && !o.json
	return messages.ExecCommand{Call: "run", Argv: o.argv, TTY: tty, Size: o.terminal.size(), Attended: shown,
		OpenStdin: true, Yield: new(messages.MaxYield), MaxOutputTokens: new(0), Limits: messages.Limits{WallTime: o.timeout}}
}

// report passes on the events until the command has ended, and returns the exit code. If the command did not run, the answer to the
// call says why.
func (o *order) report(ctx context.Context, session *execbus.Session, events *bus.Subscription, answer <-chan error) int {
	lines := json.NewEncoder(o.std.out)
	untilRefused, refused := context.WithCancelCause(ctx)
	defer refused(nil)
	go func() {
		if err := <-answer; err != nil {
			refused(err)
		}
	}()
	waiting := untilRefused
	for {
		event, err := events.Next(waiting)
		if err != nil && waiting.Err() != nil { // an event that has come together with the answer counts
			if _, patched := errors.AsType[applied](context.Cause(waiting)); !patched {
				return o.refused(context.Cause(waiting))
			}
			waiting = ctx // its event follows
			continue
		}
		if err != nil {
			return failed(o.std, err)
		}
		if o.json {
			_ = lines.Encode(event) // the command goes on even if the reader has gone
		}
		switch e := event.(type) {
		case messages.ExecStarted:
			waiting = ctx // from now on its end is the answer
			process, err := session.Process(ctx, e.Process)
			if err == nil {
				defer o.follow(process)()
				if o.until != nil && *o.until != (messages.Until{}) && o.met == nil { // the wait goes on in another attempt
					o.met = make(chan messages.Met, 1)
					go o.endWhenMet(ctx, session, process)
				}
			}
		case messages.OutputDelta:
			o.pass(e)
		case messages.ApprovalRequested:
			o.person.pass(e.Question.ID)
		case messages.ExecNotice:
			o.say(e.Text)
		case messages.PatchApplied:
			o.terminal.detach()
			<-untilRefused.Done()
			if !o.json {
				fmt.Fprint(o.std.out, shownOn(o.std.out, context.Cause(untilRefused).Error()))
			}
			return 0
		case messages.ExecEnded:
			o.terminal.detach()
			if waiting != ctx {
				<-untilRefused.Done()
				return o.refused(context.Cause(untilRefused))
			}
			if o.output.On() {
				if err := o.keep(session, e.Process, o.std); err != nil {
					_ = failed(o.std, err)
				}
			}
			return o.ended(e.EndRecord)
		}
	}
}

// endWhenMet ends the command for the reason that --until names, unless it ends by itself before.
func (o *order) endWhenMet(ctx context.Context, session *execbus.Session, process *execbus.Process) {
	defer close(o.met)
	found, err := session.Wait(ctx, messages.Wait{NoTimeout: true, For: []messages.WaitFor{{Process: process.ID(), Until: o.until}}})
	if err != nil || len(found) == 0 || found[0].Met.Reason == messages.MetExit {
		return
	}
	o.met <- found[0].Met
	_, _ = process.Terminate(ctx) // an error means that it has ended
}

// untilMet reports whether what --until names came before the end of the command, and says for which reason. The wait has its answer by then,
// or will have it: the end is one, too.
func (o *order) untilMet() bool {
	if o.met == nil {
		return false
	}
	met, is := <-o.met
	switch {
	case is && o.json:
		_ = json.NewEncoder(o.std.out).Encode(map[string]any{"kind": "until_met", "met": met})
	case is:
		fmt.Fprintf(o.std.err, "execbus: %s; the command was ended\n", met.String())
	}
	return is
}

// say writes a line for a person. It ends in \r\n, because the terminal may be in raw mode.
func (o *order) say(text string) {
	fmt.Fprintf(o.std.err, "execbus: %s\r\n", text)
}

func (o *order) pass(e messages.OutputDelta) {
	switch {
	case o.json:
	case e.Stream == messages.StreamStderr:
		_, _ = o.std.err.Write(e.Bytes)
	default:
		_, _ = o.std.out.Write(e.Bytes)
	}
}

// ended explains an unusual end to a person, and returns the exit code.
func (o *order) ended(end messages.EndRecord) int {
	if o.untilMet() {
		return 0
	}
	switch {
	case o.timedOut(end):
		fmt.Fprintf(o.std.err, "execbus: the command was ended after %v\n", o.timeout)
		return exitTimedOut
	case end.Limit != "":
		fmt.Fprintf(o.std.err, "execbus: the command was ended because it reached its limit %s\n", end.Limit)
	case end.Denial != nil:
		fmt.Fprintf(o.std.err, "execbus: %v\n", end.Denial)
	}
	for _, blocked := range end.BlockedHosts {
		fmt.Fprintf(o.std.err, "execbus: %v%s\n", blocked, allowHost(blocked.Suggestion))
	}
	if end.Executions != nil {
		for _, refused := range end.Executions.Refusals {
			fmt.Fprintf(o.std.err, "execbus: %s\n", messages.Visible(refused.String()))
		}
	}
	code, known := end.Status.Code()
	switch {
	case known && code == 0 && o.until != nil && *o.until != (messages.Until{}):
		fmt.Fprintln(o.std.err, "execbus: the command exited before what --until names")
		return exitNotMet
	case known:
		return code
	}
	fmt.Fprintf(o.std.err, "execbus: %v\n", &end)
	return exitFailed
}

// allowHost is the setting that is the same as a rule.
func allowHost(rule *messages.HostRule) string {
	if rule == nil || rule.Decision != messages.HostAllow || rule.HiddenName {
		return ""
	}
	return fmt.Sprintf("; so does --allow-host %s/%s", messages.Visible(rule.Host), rule.Protocol)
}

// timedOut reports whether --timeout ended the command, rather than a shorter limit.
func (o *order) timedOut(end messages.EndRecord) bool {
	return end.Limit == messages.LimitWallTime && o.timeout > 0 && (o.limits.WallTime == 0 || o.timeout <= o.limits.WallTime)
}

// refused explains why a command did not run.
func (o *order) refused(err error) int {
	o.terminal.detach()
	if known, ok := errors.AsType[*messages.Error](err); ok && o.json {
		_ = json.NewEncoder(o.std.out).Encode(map[string]any{"kind": "error", "error": known})
	}
	_ = failed(o.std, err)
	adviseAssurance(err, o.std)
	switch {
	case errors.Is(err, messages.ErrNoSuchProgram):
		return exitNoProgram
	case errors.Is(err, messages.ErrSpawnFailed):
		return exitNoExecute
	}
	return exitRefused
}

// environment returns the caller's own environment, because the command is the caller's, too.
func environment() map[string]string {
	all := map[string]string{}
	for _, variable := range os.Environ() {
		if name, value, ok := strings.Cut(variable, "="); ok && name != "" {
			all[name] = value
		}
	}
	return all
}

// follow passes on input, signals and the size of the caller's window until the returned function is called. A second SIGTERM ends a
// command that has ignored the first.
func (o *order) follow(process *execbus.Process) (stop func()) {
	if o.terminal != nil && o.command().TTY {
		o.terminal.pass()
	}
	go o.feed(process)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGWINCH)
	done := make(chan struct{})
	go func() {
		ctx, terms := context.Background(), 0
		for {
			select {
			case sig := <-signals:
				if sig == syscall.SIGTERM {
					terms++
				}
				switch {
				case sig == syscall.SIGWINCH:
					_ = process.Resize(ctx, o.terminal.size()) // a command on pipes has no size
				case terms > 1:
					_, _ = process.Terminate(ctx) // an error means that it has ended
				default:
					_ = process.Signal(ctx, sig.(syscall.Signal))
				}
			case <-done:
				return
			}
		}
	}()
	return func() { signal.Stop(signals); close(done) }
}

// feed passes on the input and its end. It reads nothing while a question is open. What is not typed is given to another
// attempt again.
func (o *order) feed(process *execbus.Process) {
	var in io.Reader = o.std.in
	to := process.Repeatable()
	if o.terminal != nil {
		in, to = o.terminal, process
	}
	buffer := make([]byte, 16<<10)
	for {
		n, err := in.Read(buffer)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); errors.Is(err, messages.ErrUnknownProcess) {
				return
			}
		}
		if err != nil {
			_ = process.CloseStdin(context.Background())
			return
		}
	}
}
