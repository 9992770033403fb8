package shared

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/execbus/execbus/actors/internal/output"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/policy/rules"
	"github.com/execbus/execbus/ptyio"
)

// Dependencies are what all sessions of a runtime share. They are not changed.
type Dependencies struct {
	Bus     *bus.Bus
	Spawner ptyio.Spawner
	Logger  *slog.Logger
	// MaxProcesses bounds the processes of all sessions together.
	MaxProcesses int
	Telemetry    *Telemetry
	// Rules are the rules from the files at the start; amendments are appended to AmendmentFile, or to no file if it is
	// empty.
	Rules         *rules.Set
	AmendmentFile string
	// Protected are absolute paths that no confined command may change.
	Protected []string
	// Spools has files for output that logs drop; nil for none, and then output cannot be searched.
	Spools output.Spools
	// Patches applies patches; nil refuses them.
	Patches Patches
	// NewNetwork makes the network of a session whose commands may talk to some hosts; nil refuses such a policy.
	NewNetwork func(NetworkOptions) Network
	// MakePlan decides about commands; nil means policy.MakePlan.
	MakePlan func(policy.Request, policy.Snapshot) policy.Plan
	// RecordBytes bounds the memory for the output of ended processes of all sessions; zero means DefaultRecordBytes.
	RecordBytes int64
	// Teardown is how long a tree that is being ended holds back a later start, from the moment when its end begins;
	// zero means DefaultTeardown.
	Teardown time.Duration
	// Patience is how long a host's own code may take; zero fields mean the defaults.
	Patience Patience

	// Looking holds a token for each process that is being looked at until it waits for input, up to MaxLooking. Looks are the rarer, the more
	// there are.
	Looking chan struct{}
	// Asked holds a token for each plan that a host's own spawner is asked about; see MaxAsked.
	Asked chan struct{}
}

// MaxLooking bounds what counts as being looked at.
const MaxLooking = 1 << 16

// MaxAsked bounds the plans about which a host's own spawner and its Resolver are asked at once. A spawner that never
// answers costs that many goroutines; after that, no command that needs it starts.
const MaxAsked = 64

// DefaultRecordBytes is the default of Dependencies.RecordBytes.
const DefaultRecordBytes = 64 << 20

// DefaultTeardown is the default of Dependencies.Teardown.
const DefaultTeardown = time.Second

// Patience is how long a host's own code may take before the runtime goes on without it.
type Patience struct {
	Spawn    time.Duration // a start that was cancelled: 10 s; our own spawners need up to 6 s
	Child    time.Duration // one call to a child that is not ours: 5 s
	End      time.Duration // the end of such a child, after its grace period, and again after it was abandoned: 10 s
	Approver time.Duration // an approver whose answer is not wanted any more: 5 s
	Keyboard time.Duration // a person who has a keyboard and does not type: messages.DefaultKeyboardIdle
	Plan     time.Duration // the plan of a command, from its call on, if it is to keep its position among the questions: 1 s
}

// WithDefaults fills in what a host may leave out.
func (s Dependencies) WithDefaults() *Dependencies {
	if s.MakePlan == nil {
		s.MakePlan = policy.MakePlan
	}
	s.RecordBytes = cmp.Or(s.RecordBytes, DefaultRecordBytes)
	s.Teardown = cmp.Or(s.Teardown, DefaultTeardown)
	s.Asked = make(chan struct{}, MaxAsked)
	s.Looking = make(chan struct{}, MaxLooking)
	s.Patience.Spawn = cmp.Or(s.Patience.Spawn, 10*time.Second)
	s.Patience.Child = cmp.Or(s.Patience.Child, 5*time.Second)
	s.Patience.End = cmp.Or(s.Patience.End, 10*time.Second)
	s.Patience.Approver = cmp.Or(s.Patience.Approver, 5*time.Second)
	s.Patience.Keyboard = cmp.Or(s.Patience.Keyboard, messages.DefaultKeyboardIdle)
	s.Patience.Plan = cmp.Or(s.Patience.Plan, time.Second)
	return &s
}

// Session is what the actors of one session are given.
type Session struct {
	*Dependencies
	SessionID messages.SessionID
	Logger    *slog.Logger // which names the session
	// Blind has a token once the session was told that nobody can see what its processes wait for.
	Blind chan struct{}
}

// Session is the same for every actor of a session.
func (s *Dependencies) Session(id messages.SessionID) *Session {
	return &Session{Dependencies: s, SessionID: id, Logger: s.Logger.With("session", string(id)),
		Blind: make(chan struct{}, 1)}
}

// Approver answers questions on a person's behalf. Its context ends when the answer is not wanted any more.
type Approver func(context.Context, messages.Question) (messages.Decision, error)

// SessionConfig configures a supervisor. All its defaults are filled in, and it does not change.
type SessionConfig struct {
	Session          messages.SessionID
	Dir              string // absolute
	Environment      messages.EnvironmentPolicy
	Base             []string // the environment that commands start from, on the machine where they run
	NoLoginShell     bool
	LongestPoll      time.Duration
	AnswerEarly      bool
	RecordRaw        bool // events carry keys and input of pipes
	OutputTokens     int
	MaxProcesses     int
	WarnProcesses    int
	Protected        int
	DeterministicIDs bool
	OnLeaderExit     messages.OnLeaderExit // of commands that do not say otherwise
	Approval         messages.ApprovalPolicy
	Sandbox          messages.SandboxPolicy
	RulesUnreadable  messages.RulesUnreadable
	Executions       messages.ExecutionMode
	LeastAssurance   messages.Assurance
	Limits           messages.Limits
	Approver         Approver // nil: only subscribers and callers answer
	Keyboard         messages.KeyboardPolicy
	ApprovalDeadline time.Duration // zero: none
	OnDeadline       messages.DecisionKind
	// Ended is called when the last process has ended and no event of the session comes any more, before any caller is
	// told. It may be called more than once and must not block; nil does nothing.
	Ended func()
}

func (c SessionConfig) Settings() Settings {
	return Settings{Dir: c.Dir, Environment: c.Environment, Base: c.Base, noLogin: c.NoLoginShell, LongestPoll: c.LongestPoll, AnswerEarly: c.AnswerEarly, RecordRaw: c.RecordRaw,
		outputTokens: c.OutputTokens, Approval: c.Approval, Unreadable: c.RulesUnreadable, Executions: c.Executions, Keyboard: c.Keyboard, Sandbox: c.Sandbox, Least: c.LeastAssurance, Limits: c.Limits}
}
