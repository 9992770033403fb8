package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/fleet"
	"github.com/execbus/execbus/fleet/embedded"
	"github.com/execbus/execbus/internal/keep"
	"github.com/execbus/execbus/messages"
)

// stopTime is how long this program waits for the end of what it runs.
const stopTime = 30 * time.Second

// labels are flags of the form NAME=VALUE.
type labels map[string]string

func (l labels) String() string { return "" }

func (l labels) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return errors.New("write NAME=VALUE")
	}
	l[name] = value
	return nil
}

// policy is the flag --sandbox. Empty means none.
func policy(text string) (*messages.SandboxPolicy, error) {
	if text == "" {
		return nil, nil
	}
	parsed, err := messages.ParseSandboxPolicy(text)
	if err != nil {
		return nil, errMisused(err.Error())
	}
	return &parsed, nil
}

func setup(flags *flag.FlagSet) func(context.Context, *job) error {
	var s server
	var settings fleet.Settings
	s.flags(flags)
	flags.DurationVar(&settings.Lease, "lease", fleet.DefaultLease, "how long a node counts as reachable after a heartbeat")
	flags.DurationVar(&settings.Retention, "retention", fleet.DefaultRetention, "how long events are kept")
	flags.Int64Var(&settings.CacheBytes, "cache", fleet.DefaultCacheBytes, "bytes of output that the server keeps")
	flags.IntVar(&settings.Replicas, "replicas", 1, "copies that the servers of a cluster keep")
	return func(ctx context.Context, j *job) error {
		nc, err := s.connect(j)
		if err != nil {
			return err
		}
		defer nc.Close()
		return fleet.Setup(ctx, nc, settings)
	}
}

var notOfAName = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// machine is the name of this machine, as a node may have it.
func machine() string {
	name, err := os.Hostname()
	if name = notOfAName.ReplaceAllString(name, "-"); err != nil || name == "" {
		return "node"
	}
	return name[:min(len(name), 64)]
}

// nodeFlags are the settings of a node.
type nodeFlags struct {
	fleet.Node
	sandbox, state string
	output         keep.Setting
}

func (n *nodeFlags) flags(flags *flag.FlagSet) {
	n.Labels = labels{}
	flags.StringVar(&n.ID, "id", machine(), "name of this node")
	flags.Var(labels(n.Labels), "label", "label of this node, as `NAME=VALUE`; may be given several times")
	flags.IntVar(&n.Slots, "slots", fleet.DefaultSlots, "sessions at once")
	flags.Int64Var(&n.Memory, "memory", 0, "bytes that sessions may reserve together; 0 does not count them")
	flags.StringVar(&n.sandbox, "sandbox", "", "sandbox policy of every session, whatever its client asks for")
	flags.DurationVar(&n.LostAfter, "lost-after", fleet.DefaultLostAfter, "how long other nodes may be unreachable before this one gives them up")
	flags.StringVar(&n.state, "state", "", "directory in which the runtime records its processes, in case it is killed with its warden")
	n.output.ByDefault = true
	flags.BoolFunc("keep-output", "keep all output of commands in ~/.local/state/execbus, in files without names, until the commands are forgotten, so that it can be read "+
		"although it is too much for memory; on by default, where you have a home directory: without it up, run and attach do not show all output of a command that prints much", n.keeps(true))
	flags.BoolFunc("no-keep-output", "keep what memory has: of each command the first 512 KiB and the newest MiB", n.keeps(false))
	flags.Func("output-quota", "how much is kept of the output of one command: beyond it, not the middle. `BYTES` may end in K, M or G; by default 1G", quota(&n.output.PerProcess))
	flags.Func("output-total", "how much is kept of the output of all commands, in `BYTES`; the oldest gives way; by default 8G", quota(&n.output.Total))
}

// keeps is a flag that says whether all output is kept.
func (n *nodeFlags) keeps(output bool) func(string) error {
	return func(text string) error {
		is, err := strconv.ParseBool(text)
		n.output.Said = new(is == output)
		return err
	}
}

// quota is a flag that bounds kept output.
func quota(bound *int64) func(string) error {
	return func(text string) (err error) {
		*bound, err = keep.Quota(text)
		return err
	}
}

// serve makes this machine a node until ctx ends.
func (n *nodeFlags) serve(ctx context.Context, j *job, nc *nats.Conn) (err error) {
	if n.Sandbox, err = policy(n.sandbox); err != nil {
		return err
	}
	warn := func(text string) { fmt.Fprintln(j.err, "execbus-fleet:", messages.Visible(text)) }
	rt, err := keep.Start(n.output, warn, func(dir string) (*execbus.Runtime, error) {
		return execbus.Start(execbus.Options{StateDir: n.state, Spool: execbus.SpoolOptions{Dir: dir, PerProcess: n.output.PerProcess, Total: n.output.Total}})
	})
	if err != nil {
		return err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		err = errors.Join(err, rt.Shutdown(ending))
	}()
	return fleet.Serve(ctx, nc, rt, n.Node)
}

func node(flags *flag.FlagSet) func(context.Context, *job) error {
	var s server
	var n nodeFlags
	s.flags(flags)
	n.flags(flags)
	return func(ctx context.Context, j *job) error {
		nc, err := s.connect(j)
		if err != nil {
			return err
		}
		defer nc.Close()
		n.Ready = func() { fmt.Fprintf(j.err, "execbus-fleet: node %s serves\n", n.ID) }
		return n.serve(ctx, j, nc)
	}
}

// up runs a server, a node, and either a command or a console.
func up(flags *flag.FlagSet) func(context.Context, *job) error {
	var n nodeFlags
	var c command
	var dir string
	var options embedded.Options
	n.flags(flags)
	flags.StringVar(&options.Listen, "listen", "", "`address` for other programs, which need the token in the URL that is printed; a port of 0 is a free one; beyond this machine it needs --tls-cert")
	flags.StringVar(&options.Cert, "tls-cert", "", "`file` with the certificate for --listen; needs --tls-key")
	flags.StringVar(&options.Key, "tls-key", "", "`file` with its key")
	flags.StringVar(&dir, "dir", "", "directory of the books and streams; empty: one that is removed at the end")
	c.flags(flags)
	return func(ctx context.Context, j *job) (err error) {
		p, err := c.placement()
		switch alone := options.Listen == "" && !j.attended; {
		case err != nil:
			return err
		case len(j.args) == 0 && alone:
			return errMisused("name a command behind --, or an address with --listen, or run it on a terminal")
		case alone && p.Session.Approval.Mode != "" && p.Session.Approval.Mode != messages.ApproveNever:
			return errMisused("nobody could answer the questions of --approval: run it on a terminal, or name an address with --listen")
		}
		if dir == "" {
			if dir, err = os.MkdirTemp("", "execbus-fleet-"); err != nil {
				return err
			}
			defer func() { _ = os.RemoveAll(dir) }()
		}
		if options.Dir = dir; options.Listen != "" {
			options.Token = rand.Text()
		}
		s, err := embedded.Start(options)
		if err != nil {
			return err
		}
		defer s.Close()
		nc, err := fleet.Connect("", s.InProcess())
		if err != nil {
			return err
		}
		defer nc.Close()
		if err := fleet.Setup(ctx, nc, fleet.Settings{}); err != nil {
			return err
		}
		return j.beside(ctx, nc, &n, &c, s)
	}
}

// beside serves the node while the command runs, or until ctx ends. The node outlives the command's context, so that the command is ended
// in order.
func (j *job) beside(ctx context.Context, nc *nats.Conn, n *nodeFlags, c *command, s *embedded.Server) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ready, served := make(chan struct{}), make(chan error, 1)
	n.Ready = func() { close(ready) }
	go func() { served <- n.serve(serving, j, nc) }()
	select {
	case err := <-served:
		return err
	case <-ready:
	}
	if s.URL() != "" {
		fmt.Fprintf(j.err, "execbus-fleet: node %s serves; other programs: export EXECBUS_FLEET_SERVER=%s\n", n.ID, s.URL())
	}
	var err error
	if len(j.args) > 0 {
		err = c.run(ctx, j, nc)
	} else {
		ended := make(chan error, 1)
		if j.attended {
			talking, quiet := context.WithCancel(ctx)
			defer quiet()
			here := *j
			here.dial = func() (*nats.Conn, error) { return fleet.Connect("", s.InProcess()) }
			go func() {
				quit, err := (&console{job: &here, nc: nc, to: j.out, commands: true}).run(talking)
				if quit || err != nil || s.URL() == "" { // the end of the input is no end for other programs
					ended <- err
				}
			}()
		}
		select {
		case <-ctx.Done():
		case err = <-ended:
		case err := <-served: // it was drained
			return err
		}
	}
	stop()
	return errors.Join(err, <-served)
}
