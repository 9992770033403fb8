package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

const runUsage = `Usage:
  execbus run [--sandbox POLICY] [--network] [--writable DIR]... [--assurance LEVEL] [--cd DIR] [--limit NAME=VALUE]... -- COMMAND...

Runs one command in a sandbox, on this terminal or these pipes, and ends everything that it started.

  --sandbox POLICY     read-only, workspace-write (the default) or danger-full-access
  --network            let it use the network
  --writable DIR       let it write below another directory; may be repeated
  --assurance LEVEL    the least to accept: isolated, confined or none; by default isolated where the workspace holds a
                       protected name such as .git, and confined elsewhere
  --cd DIR             the workspace, and where the command runs; by default the current directory
  --limit NAME=VALUE   end the command when it reaches output=BYTES, cpu=TIME, wall=TIME, memory=BYTES, processes=N; bound
                       files=N. Bytes may end in K, M or G, and times are such as 30s; may be repeated

Exit codes: the command's own; 128+N if it died of signal N; 125 if it was refused; 126 if it cannot be executed; 127 if there is no
such program; 2 for wrong usage.

Example:
  $ execbus run --sandbox read-only -- ls
`

// Exit codes as shells use them.
const (
	exitRefused   = 125
	exitNoExecute = 126
	exitNoProgram = 127
)

// order is a command line of "run".
type order struct {
	policy    messages.SandboxPolicy
	assurance messages.Assurance
	dir       string
	limits    messages.Limits
	argv      []string
}

// runCommand runs "run".
func runCommand(args []string, std streams) int {
	o := order{policy: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}}
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.Func("sandbox", "", func(s string) error { o.policy.Type = messages.SandboxType(s); return known(o.policy.Type) })
	flags.BoolVar(&o.policy.NetworkAccess, "network", false, "")
	flags.Func("writable", "", func(s string) error {
		full, err := filepath.Abs(s)
		o.policy.WritableRoots = append(o.policy.WritableRoots, full)
		return err
	})
	flags.Func("assurance", "", func(s string) error { o.assurance = messages.Assurance(s); return o.assurance.Check() })
	flags.StringVar(&o.dir, "cd", ".", "")
	flags.Func("limit", "", func(s string) error { return setLimit(&o.limits, s) })
	if code, done := parse(flags, args, runUsage, std); done {
		return code
	}
	if o.argv = flags.Args(); len(o.argv) == 0 {
		return misused(std, "name a command", runUsage)
	}
	var err error
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return misused(std, err.Error(), runUsage)
	}
	o.warn(std)
	return o.run(std)
}

func known(kind messages.SandboxType) error {
	switch kind {
	case messages.SandboxReadOnly, messages.SandboxWorkspaceWrite, messages.SandboxDangerFullAccess:
		return nil
	}
	return fmt.Errorf("there is no policy %q; use read-only, workspace-write or danger-full-access", kind)
}

// setLimit sets one of the limits: NAME=VALUE.
func setLimit(l *messages.Limits, text string) error {
	name, value, _ := strings.Cut(text, "=")
	var err error
	switch name {
	case "output":
		l.OutputBytes, err = size(value)
	case "memory":
		l.MemoryBytes, err = size(value)
	case "cpu":
		l.CPUTime, err = time.ParseDuration(value)
	case "wall":
		l.WallTime, err = time.ParseDuration(value)
	case "processes":
		l.Processes, err = strconv.Atoi(value)
	case "files":
		l.OpenFiles, err = strconv.Atoi(value)
	default:
		return fmt.Errorf("there is no limit %q; use output, cpu, wall, memory, processes or files", name)
	}
	if err != nil {
		return fmt.Errorf("%q is not a value for the limit %s", value, name)
	}
	return l.Check()
}

// size reads a number of bytes.
func size(text string) (int64, error) {
	factor := int64(1)
	for i, unit := range []string{"K", "M", "G"} {
		if number, found := strings.CutSuffix(text, unit); found {
			text, factor = number, 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if n > 1<<62/factor {
		return 0, errors.New("too large")
	}
	return n * factor, err
}

// warn warns about settings that a person may not have meant.
func (o *order) warn(std streams) {
	home, _ := os.UserHomeDir()
	if o.policy.Type == messages.SandboxWorkspaceWrite && (o.dir == "/" || o.dir == home) {
		fmt.Fprintf(std.err, "execbus: the command can write everything below %s; name a smaller workspace with --cd\n", o.dir)
	}
}

// run runs the command and returns the exit code.
func (o *order) run(std streams) int {
	ctx := context.Background()
	rt, err := execbus.Start(execbus.Options{})
	if err != nil {
		return refused(std, err)
	}
	defer func() { _ = rt.Shutdown(ctx) }()
	session, err := rt.OpenSession(execbus.SessionOptions{Dir: o.dir, Sandbox: &o.policy, LeastAssurance: o.assurance, Limits: o.limits,
		Environment: messages.EnvironmentPolicy{Exact: true, Set: environment()}})
	if err != nil {
		return refused(std, err)
	}
	events, err := session.Events(execbus.Watch{Lossless: true, Name: "execbus run", Calls: []messages.CallID{"run"}})
	if err != nil {
		return refused(std, err)
	}
	defer events.Close()
	terminal := attach(std)
	defer terminal.detach()
	command := messages.ExecCommand{Call: "run", Argv: o.argv, TTY: terminal != nil, Size: terminal.size(), OpenStdin: true}
	process, err := session.Start(ctx, command)
	if err != nil {
		terminal.detach()
		return refused(std, err)
	}
	stop := terminal.follow(process)
	defer stop()
	go feed(process, std)
	defer forward(process)()
	for event := range events.All(ctx) {
		switch e := event.(type) {
		case messages.OutputDelta:
			out := std.out
			if e.Stream == messages.StreamStderr {
				out = std.err
			}
			_, _ = out.Write(e.Bytes)
		case messages.ExecEnded:
			terminal.detach()
			return o.ended(std, e.EndRecord)
		}
	}
	return exitFailed
}

// ended explains an unusual end to a person, and returns the exit code.
func (o *order) ended(std streams, end messages.EndRecord) int {
	switch {
	case end.Limit != "":
		fmt.Fprintf(std.err, "execbus: the command was ended because it reached its limit %s\n", end.Limit)
	case end.Denial != nil:
		fmt.Fprintf(std.err, "execbus: %v\n", end.Denial)
	}
	if code, known := end.Status.Code(); known {
		return code
	}
	fmt.Fprintf(std.err, "execbus: %v\n", &end)
	return exitFailed
}

// refused explains why a command did not run.
func refused(std streams, err error) int {
	fmt.Fprintln(std.err, "execbus:", err)
	switch {
	case tooLittleAssurance(err):
		fmt.Fprintln(std.err, `execbus: "execbus doctor" says what is missing; --assurance confined or --assurance none accept less`)
	case errors.Is(err, messages.ErrNoSuchProgram):
		return exitNoProgram
	case errors.Is(err, messages.ErrSpawnFailed):
		return exitNoExecute
	}
	return exitRefused
}

// tooLittleAssurance reports whether a command was refused because its policy cannot be enforced to the required level. A
// limit that cannot be enforced is refused at every level.
func tooLittleAssurance(err error) bool {
	refusal, ok := errors.AsType[*messages.Error](err)
	return ok && refusal.Code == messages.ErrUnsupported && refusal.Subject == "sandbox"
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

// feed passes on the input and its end.
func feed(process *execbus.Process, std streams) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := std.in.Read(buffer)
		if n > 0 {
			if _, err := process.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			_ = process.CloseStdin(context.Background())
			return
		}
	}
}

// forward passes signals on until the returned function is called.
func forward(process *execbus.Process) (stop func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case sig := <-signals:
				_ = process.Signal(context.Background(), sig.(syscall.Signal))
			case <-done:
				return
			}
		}
	}()
	return func() { signal.Stop(signals); close(done) }
}
