//go:build linux

package hostile_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// child is a program that behaves badly, with the end that it must have.
type child struct {
	name   string
	script string   // for bash, with the token as $1 and a file that does not exist yet as $2
	role   []string // or a role of this binary with its arguments
	argv0  string
	only   string // "pty" or "pipes"; otherwise both
	root   bool
	keep   bool
	drive  func(*program) // what the host does to it meanwhile

	cause       messages.Cause // zero: exited
	status      []messages.ExitStatus
	descendants int  // how many must have been ended with it, at least
	hangup      bool // on a terminal the kernel's own SIGHUP may end them first
	weak        bool // it attacks the basis of all trees: the report need not be airtight, and the neighbour may be hit
	survives    bool // the report must name a survivor, which lives until the last command ends
}

var (
	three   = []messages.ExitStatus{messages.StatusExited(3)}
	asked   = []messages.ExitStatus{messages.StatusSignaled(syscall.SIGTERM), messages.StatusSignaled(syscall.SIGHUP)}
	killed  = []messages.ExitStatus{messages.StatusSignaled(syscall.SIGKILL)}
	unknown = []messages.ExitStatus{messages.StatusNone()}
)

const terminated = messages.CauseTerminated

var badChildren = []child{
	{name: "setsid daemon keeps the terminal", script: `setsid sleep $1 & read x; exit 3`, drive: leave, status: three, descendants: 1},
	{name: "double-forked daemon", script: `(setsid sleep $1 &); read x; exit 3`, drive: leave, status: three, descendants: 1},
	{name: "daemon without environment in /", script: `(cd /; env -i setsid sleep $1 &); read x; exit 3`, drive: leave,
		status: three, descendants: 1},
	{name: "kept daemon", script: `(setsid sleep $1 &); read x; exit 3`, status: three, descendants: 1, keep: true, drive: terminateKept},
	{name: "silent job", script: `sleep $1 & exit 3`, status: three, descendants: 1, hangup: true},
	{name: "chatty job", script: `while :; do echo $1; done & exit 3`, status: three, descendants: 1, hangup: true},
	{name: "chatty daemon", script: `(setsid bash -c 'while :; do echo up; done' $1 &); read x; exit 3`, status: three,
		descendants: 1, drive: goOn},
	{name: "job deaf to TERM and HUP", script: `trap "" TERM HUP; sleep $1 & exit 3`, status: three, descendants: 1},
	{name: "job that answers TERM with children", status: three, descendants: 2, drive: goOn, hangup: true,
		script: `(trap 'for i in {1..20}; do setsid sleep $1 & done; sleep $1' TERM; echo up; sleep $1 & wait) & read x; exit 3`},
	{name: "stops itself", script: `kill -STOP $$; sleep $1`, drive: terminateStopped, cause: terminated, status: asked},
	{name: "stops its group", script: `sleep $1 & kill -STOP 0; sleep $1`, drive: terminateStopped, cause: terminated, status: asked,
		descendants: 1},
	{name: "stops again when continued", drive: terminateStopped, cause: terminated, status: append(killed, asked...),
		script: `trap 'kill -STOP $$' CONT TERM HUP; while :; do kill -STOP $$; done`},
	{name: "closes and reopens its terminal", only: "pty", drive: reopen, status: three,
		script: `t=$(tty); echo up; exec <&- >&- 2>&-; until [ -e $2 ]; do sleep 0.01; done; exec <>$t >&0 2>&0; echo back; exit 3`},
	{name: "closes its streams and dies", script: `exec <&- >&- 2>&-; exit 3`, status: three},
	{name: "closes its streams and lives", script: `echo up; exec <&- >&- 2>&-; sleep $1; exit 3`, drive: terminateUp,
		cause: terminated, status: asked},
	{name: "raw terminal", only: "pty", script: `stty raw -echo; echo up; sleep $1`, drive: useRaw, cause: terminated, status: asked},
	{name: "no end-of-file character", only: "pty", script: `stty eof undef; echo up; cat >/dev/null`, drive: closeInVain,
		cause: terminated, status: asked},
	{name: "end-of-file character x", only: "pty", script: `stty eof x; echo up; cat; exit 3`, drive: closeInput, status: three},
	{name: "mode changes without end", only: "pty", drive: terminateUp, cause: terminated, status: asked,
		script: `echo up; while :; do stty raw -echo; stty sane; done`},
	{name: "output stopped by ^S", only: "pty", script: `echo up; read x; while :; do echo $1; done`, drive: stopOutput,
		cause: terminated, status: asked},
	{name: "other group in the foreground", only: "pty", script: `set -m; sleep $1; exit 3`, drive: signalForeground, status: three},
	{name: "hangs up its terminal", only: "pty", role: []string{"vhangup"}, root: true, status: three},
	{name: "gives up its terminal", only: "pty", role: []string{"notty"}, status: three},
	{name: "terminal for itself alone", only: "pty", role: []string{"exclusive"}, status: three},
	{name: "re-executes itself", status: three,
		script: `n=${3:-0}; ((n < 60)) || exit 3; exec bash -c "$BASH_EXECUTION_STRING" bash $1 $2 $((n+1))`},
	{name: "takes the warden's name", role: []string{"sleep"}, argv0: wardenName, status: []messages.ExitStatus{messages.StatusExited(127)}},
	{name: "comet, let go", role: []string{"comet", "3000"}, drive: goOn, status: []messages.ExitStatus{messages.StatusExited(0)}},
	{name: "comet, terminated", role: []string{"comet", "60000"}, drive: terminateComet, status: []messages.ExitStatus{messages.StatusExited(0)}},
	{name: "fork bomb of 128", role: []string{"bomb", "7"}, drive: terminateBomb, cause: terminated, status: asked, descendants: 127},
	{name: "hydra of 200 heads", role: []string{"hydra", "200"}, drive: terminateUp, cause: terminated, status: killed, descendants: 1},
	{name: "daemon sheds half of its mark", role: []string{"shed", "half"}, drive: goOn, status: three, weak: true},
	{name: "daemon sheds its mark", role: []string{"shed", "all"}, drive: goOn, status: three, weak: true, survives: true},
	{name: "kills its warden", script: `(setsid sleep $1 &); sleep $1 & kill -KILL $PPID; sleep $1`,
		cause: messages.CauseRuntimeFailure, status: unknown, weak: true},
	{name: "asks its warden to end", script: `sleep $1 & kill -TERM $PPID; sleep $1`, status: append(asked, unknown...),
		cause: "any", weak: true},
	{name: "stops its warden", script: `(setsid sleep $1 &); read x; kill -STOP $PPID; exit 3`, drive: leave, status: three,
		descendants: 1},
	{name: "stops its warden and is terminated", script: `read x; kill -STOP $PPID; sleep $1`, drive: terminateUnderStopped,
		cause: terminated, status: asked},
	{name: "stops its warden again and again", script: `(setsid sleep $1 &); while :; do kill -STOP $PPID; done`,
		cause: messages.CauseRuntimeFailure, status: unknown, weak: true},
}

func TestChildren(t *testing.T) {
	for i, c := range badChildren {
		for j, streams := range []string{"pipes", "pty"} {
			if c.only != "" && c.only != streams || c.only == "" && !*soak && i%2 == j {
				continue // a sample runs each case once
			}
			if thinned(i) {
				continue
			}
			t.Run(c.name+"/"+streams, func(t *testing.T) {
				ledger.enter(t)
				if c.root && os.Geteuid() != 0 {
					skip(t, "needs root")
				}
				if c.weak && elsewhere(t) { // at worst the host ends with it
					return
				}
				for range sample(8) {
					c.behave(t, streams == "pty")
				}
			})
		}
	}
}

// behave runs one child to its end, in a runtime of its own. Another command keeps running meanwhile.
func (c child) behave(t *testing.T, tty bool) {
	t.Run("", func(t *testing.T) {
		h := open(t, execbus.Options{})
		neighbour := h.run(h.bash(tty, `read x; exit 9`), false)
		command := h.bash(tty, c.script, h.gate())
		if c.role != nil {
			command = h.role(tty, c.role[0], c.role[1:]...)
		}
		command.Argv0 = c.argv0
		if c.keep {
			command.OnLeaderExit = messages.LeaderExitKeepsTree
		}
		switch p, err := h.try(command, false); {
		case c.weak && codeOf(err) == messages.ErrWardenLost: // it ended its warden before its start was answered
			note(parent{t}, "%v", err)
		case err != nil:
			t.Fatal(err)
		default:
			if c.drive != nil {
				c.drive(p)
			}
			c.judge(t, tty, awaitEvent[messages.ExecEnded](p).EndRecord)
		}
		if left := living(h.token); len(left) > 1 && !c.survives { // the neighbour
			t.Errorf("the end was reported, but %v", left)
		}
		if c.weak {
			neighbour.tryTerminate()
			neighbour.end()
			h.runsAgain(tty)
		} else {
			neighbour.write("\n")
			if record := neighbour.end(); record.Cause != messages.CauseExited || record.Status != messages.StatusExited(9) {
				t.Errorf("the neighbour ended so: %s", record.String())
			}
		}
		if left := living(h.token); len(left) > 0 {
			t.Errorf("the end of all was reported, but %v", left)
		}
		h.reaped()
	})
}

func (c child) judge(t *testing.T, tty bool, r messages.EndRecord) {
	t.Helper()
	cause := c.cause
	if cause == "" {
		cause = messages.CauseExited
	}
	note(parent{t}, "%s", r.String())
	if cause != "any" && r.Cause != cause || !slices.Contains(c.status, r.Status) {
		t.Errorf("ended so: %s; want %s, one of %v", r.String(), cause, c.status)
	}
	if survivors := len(r.Tree.Survivors) > 0; survivors != c.survives {
		t.Errorf("survivors: %+v", r.Tree.Survivors)
	}
	if r.Tree.Ended < c.descendants && (!tty || !c.hangup) || !r.Tree.Airtight && !c.weak {
		t.Errorf("the report on the tree: %+v; want %d or more ended, airtight", r.Tree, c.descendants)
	}
}

// runsAgain checks that a new command works. If the warden is dying, the command may be refused with an error that says so.
func (h *host) runsAgain(tty bool) {
	h.t.Helper()
	var next *program
	var err error
	if _, ok := within(patience, func() bool {
		next, err = h.try(h.bash(tty, `exit 4`), false)
		return codeOf(err) != messages.ErrWardenLost
	}); !ok || err != nil {
		h.t.Errorf("the next command: %v", err)
		return
	}
	if record := next.end(); record.Cause != messages.CauseExited || record.Status != messages.StatusExited(4) {
		h.t.Errorf("the next command ended so: %s", record.String())
	}
}

// parent adds notes to the row of the test to which a round belongs.
type parent struct{ *testing.T }

func (p parent) Name() string { return p.T.Name()[:strings.LastIndexByte(p.T.Name(), '/')] }

// gate returns the name of a file that does not exist.
func (h *host) gate() string { return filepath.Join(h.dir, "gate") }

func (p *program) openGate() {
	p.t.Helper()
	if err := os.WriteFile(p.gate(), nil, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *program) tryTerminate() {
	_, err := p.Terminate(p.ctx, messages.Terminate{Process: p.id})
	if code := codeOf(err); code != "" && code != messages.ErrProcessEnded {
		p.t.Errorf("terminate: %v", err)
	}
}

func goOn(p *program) {
	p.awaitOutput("up")
	p.write("\n")
}

func terminateUp(p *program) {
	p.awaitOutput("up")
	p.terminate()
}

// leave makes the leader exit after the sleeper has detached.
func leave(p *program) {
	eventually(p.t, "the daemon is up", func() bool { return len(sleepers(p.token)) == 1 })
	p.write("\n")
}

func terminateKept(p *program) {
	leave(p)
	awaitEvent[messages.ExecExited](p)
	result, err := p.Poll(p.ctx, messages.Poll{Process: p.id})
	if err != nil || !result.Running || result.Background == nil || !result.Background.Kept || result.Status != messages.StatusExited(3) {
		p.t.Errorf("poll of a kept process: %+v, %v", result, err)
	}
	p.terminate()
}

func terminateStopped(p *program) {
	eventually(p.t, "it stops", func() bool { return look(p.pid()).State == 'T' })
	p.terminate()
}

func reopen(p *program) {
	p.awaitOutput("up")
	eventually(p.t, "it closes the terminal", func() bool { return len(terminals(p.pid())) == 0 })
	p.openGate()
	p.awaitOutput("back")
}

// terminals returns the descriptors of a process that are terminals.
func terminals(pid int) []string {
	base := "/proc/" + strconv.Itoa(pid) + "/fd/"
	entries, _ := os.ReadDir(base)
	var found []string
	for _, entry := range entries {
		if target, err := os.Readlink(base + entry.Name()); err == nil && strings.HasPrefix(target, "/dev/pts/") {
			found = append(found, target)
		}
	}
	return found
}

// useRaw writes a line that is too long for line mode, which a raw terminal takes. Then it closes an input that has no end.
func useRaw(p *program) {
	p.awaitOutput("up")
	p.write(strings.Repeat("x", 6000))
	if err := p.CloseStdin(p.ctx, messages.CloseStdin{Process: p.id}); codeOf(err) != messages.ErrUnsupported {
		p.t.Errorf("close the input of a raw terminal: %v", err)
	}
	p.terminate()
}

func closeInVain(p *program) {
	p.awaitOutput("up")
	if err := p.CloseStdin(p.ctx, messages.CloseStdin{Process: p.id}); codeOf(err) != messages.ErrUnsupported {
		p.t.Errorf("close the input without end-of-file character: %v", err)
	}
	_, err := p.Write(p.ctx, messages.WriteStdin{Process: p.id, Bytes: []byte(strings.Repeat("x", 6000)), UntilTaken: true})
	if codeOf(err) != messages.ErrLineTooLong {
		p.t.Errorf("a line that is too long: %v", err)
	}
	p.terminate()
}

func closeInput(p *program) {
	p.awaitOutput("up")
	p.write("unfinished line")
	if err := p.CloseStdin(p.ctx, messages.CloseStdin{Process: p.id}); err != nil {
		p.t.Errorf("close the input: %v", err)
	}
}

func stopOutput(p *program) {
	p.awaitOutput("up")
	p.write("\n")
	p.awaitOutput(p.token)
	p.write("\x13")
	p.terminate()
}

func signalForeground(p *program) {
	eventually(p.t, "the sleeper is up", func() bool { return len(sleepers(p.token)) == 1 })
	if err := p.Signal(p.ctx, messages.Signal{Process: p.id, Signal: syscall.SIGTERM}); err != nil {
		p.t.Errorf("signal: %v", err)
	}
}

func terminateComet(p *program) {
	goOn(p)
	awaitEvent[messages.ExecExited](p)
	p.tryTerminate()
}

func terminateBomb(p *program) {
	eventually(p.t, "128 processes are up", func() bool {
		return len(slices.DeleteFunc(living(p.token), func(s seen) bool { return len(s.argv) == 0 || s.argv[0] != self })) == 128
	})
	p.terminate()
}

func terminateUnderStopped(p *program) {
	p.write("\n")
	eventually(p.t, "the warden is stopped", func() bool {
		all := wardens(os.Getpid())
		return len(all) == 1 && all[0].State == 'T'
	})
	p.terminate()
}
