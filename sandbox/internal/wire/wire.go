// Package wire is the protocol between the host and its warden: messages on a stream socket, with descriptors beside them.
// Both ends are the same binary, so the format needs no versions.
package wire

import (
	"encoding/binary"
	"syscall"
	"time"

	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/executions"
	"github.com/execbus/execbus/sandbox/internal/tree"
)

// Request goes from the host to the warden. One of the pointers is set.
type Request struct {
	ID       uint64 // chosen by the host, never reused; Register and Withdraw have numbers of their own
	Start    *Start
	Signal   *Signal
	End      *End
	Register *Register
	Withdraw *Withdraw
	Judged   *Judged
}

// Register hands over a plan for the starts that name its number. It is not answered.
type Register struct {
	Plan  confine.Plan
	Files int // the descriptors sent along; those of Plan are positions among them
	// Ruleset is the position of the Landlock rule set for confined commands without a terminal; -1 if no command will be confined.
	Ruleset int
}

// Withdraw says that no further start will name the number of a Register.
type Withdraw struct{}

// Start asks for a leader; Files descriptors travel with it.
type Start struct {
	Program   string
	Argv, Env []string
	Dir       string
	TTY, Keep bool
	Grace     time.Duration
	// Patience is how long the kernel may take to execute the program. After that the start fails with ETIMEDOUT.
	Patience time.Duration
	// Files counts the descriptors sent along. FDs maps the child's numbers, from 0 on, to their positions; -1 is closed.
	Files int
	FDs   []int
	// Groups are the positions of the files by which the leader joins control groups. Rlimits are its resource limits.
	Groups  []int
	Rlimits []tree.Rlimit
	// Tasks bounds the processes and threads of an isolated leader's namespace; zero is no bound. See isolate.Launch.
	Tasks int
	// Plan is the number of the Register by which the leader is confined; zero for none. Level is how much of the plan is enforced.
	Plan  uint64
	Level confine.Level
	// Ruleset is the position of a Landlock rule set among the files; -1 for that of the plan.
	Ruleset int
	// Executions says which executions of the tree are seen; nil for none.
	Executions *executions.Wanted
}

// room estimates how many bytes the request takes. Without the estimate an environment would make its buffer grow many times.
func (m *Request) room() int {
	s := m.Start
	if s == nil {
		return 0
	}
	room := 256 + len(s.Program) + len(s.Dir) + 2*len(s.FDs)
	for _, list := range [][]string{s.Argv, s.Env} {
		for _, text := range list {
			room += len(text) + binary.MaxVarintLen16
		}
	}
	return room
}

// Signal asks for a signal to a process group of the tree, or to all of it if Group is zero.
type Signal struct {
	Number syscall.Signal
	Group  int
}

// End asks for the end of the tree.
type End struct{ Grace time.Duration }

// Judged answers an Execution of the tree.
type Judged struct {
	Number  uint64
	Verdict executions.Verdict
}

// Reply goes from the warden to the host. Hello comes first. Started or Failed answers Start; Exited and Ended follow
// Started once each; all three may be in one reply.
type Reply struct {
	ID      uint64
	Hello   *Hello
	Started *Started
	Failed  *Failed
	Exited  *tree.Status
	Left    int // processes that the leader left behind
	Ended   *tree.Report
	// Listening comes with sockets before the first Started that it concerns. Its ID is the number of a Register.
	Listening *Listening
	// Execution, Settled and Seen come between Started and Ended.
	Execution *Execution
	Settled   *Settled
	Seen      *Seen
}

// Execution asks whether a process of the tree may execute a program. Judged answers it, with the number.
type Execution struct {
	Number uint64
	executions.Execution
}

// Settled says what became of an Execution, unless Judged refused it. One that is Late or Gone needs no answer.
type Settled struct {
	Number uint64
	Fate   executions.Fate
}

// Seen reports executions that were not asked about. Of the dropped ones there is only the number.
type Seen struct {
	Batch   []executions.Execution
	Dropped int
}

// Listening says that a network was made for the commands of a plan, with sockets there, in the order of isolate.NewNetwork. Asks says that
// the first of them asks who listens there.
type Listening struct {
	Files int
	Asks  bool
}

// Hello says how the warden makes its marks. It comes before any tree starts, because the warden may die before it can report the
// mark of a tree.
type Hello struct{ Time, Locks, Nonce uint64 }

// Started says that the leader runs.
type Started struct {
	PID  int
	Mark uint64
	// Level is how much of its plan is enforced.
	Level confine.Level
	// Unshared are the directories whose placeholders others may remove, if that has just turned out.
	Unshared []string
}

// Failed says that the leader could not be started, and which step of the birth failed.
type Failed struct {
	Errno syscall.Errno
	Step  string
}

func (m *Request) code(c *coder) {
	number(c, &m.ID)
	if optional(c, &m.Start) {
		m.Start.code(c)
	}
	if optional(c, &m.Signal) {
		number(c, &m.Signal.Number)
		number(c, &m.Signal.Group)
	}
	if optional(c, &m.End) {
		number(c, &m.End.Grace)
	}
	if optional(c, &m.Register) {
		m.Register.code(c)
	}
	optional(c, &m.Withdraw)
	if optional(c, &m.Judged) {
		number(c, &m.Judged.Number)
		number(c, &m.Judged.Verdict)
	}
}

func (m *Start) code(c *coder) {
	text(c, &m.Program)
	list(c, &m.Argv, text)
	list(c, &m.Env, text)
	text(c, &m.Dir)
	flag(c, &m.TTY)
	flag(c, &m.Keep)
	number(c, &m.Grace)
	number(c, &m.Patience)
	number(c, &m.Files)
	list(c, &m.FDs, number)
	list(c, &m.Groups, number)
	list(c, &m.Rlimits, rlimit)
	number(c, &m.Tasks)
	number(c, &m.Plan)
	number(c, &m.Level)
	number(c, &m.Ruleset)
	if optional(c, &m.Executions) {
		list(c, &m.Executions.Names, text)
		flag(c, &m.Executions.All)
		flag(c, &m.Executions.Judge)
		flag(c, &m.Executions.Report)
	}
}

func execution(c *coder, e *executions.Execution) {
	number(c, &e.PID)
	number(c, &e.Parent)
	text(c, &e.Program)
	text(c, &e.Resolved)
	list(c, &e.Argv, text)
	flag(c, &e.Cut)
	text(c, &e.Dir)
	text(c, &e.Unread)
}

func (m *Register) code(c *coder) {
	flag(c, &m.Plan.Network)
	flag(c, &m.Plan.Proxied)
	list(c, &m.Plan.ByName, number)
	text(c, &m.Plan.Resolvers)
	list(c, &m.Plan.Rules, rule)
	list(c, &m.Plan.Sockets, rule)
	number(c, &m.Files)
	number(c, &m.Ruleset)
}

func rule(c *coder, p *confine.Rule) {
	text(c, &p.Path)
	number(c, &p.Access)
	number(c, &p.Device)
	number(c, &p.Inode)
	flag(c, &p.Directory)
	text(c, &p.Link)
	flag(c, &p.IfThere)
	number(c, &p.File)
}

func rlimit(c *coder, l *tree.Rlimit) {
	number(c, &l.Resource)
	number(c, &l.Soft)
	number(c, &l.Hard)
}

func (m *Reply) code(c *coder) {
	number(c, &m.ID)
	if optional(c, &m.Hello) {
		number(c, &m.Hello.Time)
		number(c, &m.Hello.Locks)
		number(c, &m.Hello.Nonce)
	}
	if optional(c, &m.Started) {
		number(c, &m.Started.PID)
		number(c, &m.Started.Mark)
		number(c, &m.Started.Level)
		list(c, &m.Started.Unshared, text)
	}
	if optional(c, &m.Failed) {
		number(c, &m.Failed.Errno)
		text(c, &m.Failed.Step)
	}
	if optional(c, &m.Exited) {
		number(c, &m.Exited.Kind)
		number(c, &m.Exited.Number)
	}
	number(c, &m.Left)
	if optional(c, &m.Ended) {
		number(c, &m.Ended.Ended)
		list(c, &m.Ended.Survivors, func(c *coder, s *tree.Survivor) {
			number(c, &s.PID)
			text(c, &s.Name)
			text(c, &s.Why)
		})
		flag(c, &m.Ended.Airtight)
	}
	if optional(c, &m.Listening) {
		number(c, &m.Listening.Files)
		flag(c, &m.Listening.Asks)
	}
	if optional(c, &m.Execution) {
		number(c, &m.Execution.Number)
		execution(c, &m.Execution.Execution)
	}
	if optional(c, &m.Settled) {
		number(c, &m.Settled.Number)
		number(c, &m.Settled.Fate)
	}
	if optional(c, &m.Seen) {
		list(c, &m.Seen.Batch, execution)
		number(c, &m.Seen.Dropped)
	}
}
