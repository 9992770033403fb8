package execbus

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/execbus/execbus/internal/follow"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/record"
)

// Defaults of SessionOptions.
const (
	DefaultSessionMaxProcesses       = 64
	DefaultSessionWarnProcesses      = 60
	DefaultSessionProtectedProcesses = 8
)

// maxProcesses bounds SessionOptions.MaxProcesses: process ids have five digits, and a free one must be found by chance.
const maxProcesses = 50_000

// SessionOptions of one conversation. The zero value runs commands in the host's working directory and environment. They
// are copied by OpenSession.
type SessionOptions struct {
	// ID names the session, for hosts that have a name for it already; no session of the runtime may have the same, or have had it just before. It is at most 64
	// letters, digits, hyphens and underscores. Empty means a random name.
	ID messages.SessionID
	// Dir is where commands run that name no other directory; a relative one is relative to the host's. It must exist. If commands can
	// write there, no symbolic link may be on the way that others than root can have made, and the host's own directory is refused
	// if PWD is set and leads elsewhere.
	Dir string
	// Environment says how the environment of commands is built from the host's, which is read when the session opens.
	Environment messages.EnvironmentPolicy
	// NoLoginShell forbids login shells: a script that asks for one is refused.
	NoLoginShell bool
	// LongestPoll is the most a poll may wait; zero means messages.DefaultMaxPoll, and anything below messages.MinPoll means MinPoll.
	LongestPoll time.Duration
	// AnswerEarly lets calls on terminals that have no Until end early: see messages.Until.Early. A call with the zero messages.Until
	// waits for the exit or its yield.
	AnswerEarly bool
	// RecordRaw lets events, and so recordings, have the keys that programs in raw mode are given, and what goes into pipes. Both may be
	// passwords: there is no echo that tells them apart. Lines that a terminal shows are always in the events, and lines that it does not
	// show never are: see messages.TerminalInteraction.
	RecordRaw bool
	// Record writes a recording of each process that can be played: see package record. It is off without a Dir or a File. The processes of
	// the session wait for the disk, for at most record.MaxStall each. An ExecNotice says what was not recorded, and Record.Notice is told, too.
	Record record.Options
	// OutputTokens bounds the text of every result, whatever a call asks for; zero means messages.DefaultOutputTokens.
	OutputTokens int
	// View is the form of the output in the text of results, where a call does not say it; empty means messages.ViewRaw. Hosts whose
	// results are read by a model choose messages.ViewText.
	View messages.View
	// MaxProcesses is how many processes may live at once, at most 50,000; zero means DefaultSessionMaxProcesses. At that limit
	// a new command takes the place of the least recently used process that no call waits for and that is not among the
	// ProtectedProcesses most recently used. That process is ended when the command outlives the call that asked for it; until
	// then up to 8 commands are above the limit. If there is no such process, the command is refused.
	MaxProcesses       int
	ProtectedProcesses int // zero means DefaultSessionProtectedProcesses, negative none
	// OnLeaderExit says what happens to background children if the command does not say it; the zero value ends them.
	OnLeaderExit messages.OnLeaderExit
	// WarnProcesses is the number of processes from which each new one publishes a ProcessWarning; zero means
	// DefaultSessionWarnProcesses.
	WarnProcesses int
	// Approval says when a person is asked before a command runs; the zero value is messages.ApproveOnRequest.
	Approval messages.ApprovalPolicy
	// RulesUnreadable says what happens to a command that runs something which its text does not say, so that rules which forbid or ask
	// cannot be applied to it, where nobody can be asked about it; the zero value is messages.UnreadableRun.
	RulesUnreadable messages.RulesUnreadable
	// Executions says whether the rules hold for every program that commands execute, when it happens: see messages.ExecutionMode. If it
	// is set to report or enforce, a command is refused whose executions cannot be seen here. Without a sandbox they are seen only if it
	// is set; then no program of a command can gain rights: sudo and other set-uid programs do not work. While rules are enforced, an
	// allow rule does not lift the sandbox, without which executions are not seen.
	Executions messages.ExecutionMode
	// Sandbox says what commands may do. Nil means danger-full-access: no sandbox. Its paths are resolved once, when the session
	// opens; workspace-write lets commands write in Dir as it is then.
	Sandbox *messages.SandboxPolicy
	// LeastAssurance is how much of the policy must be enforced; a command that would get less is refused. Every command gets the
	// strongest enforcement that the machine has. The zero value is explained at messages.Assurance.
	LeastAssurance messages.Assurance
	// Limits bound what each command may use. If one of them cannot be enforced, every command is refused.
	Limits messages.Limits
	// Approver answers questions. A subscriber that names messages.KindApprovalRequested in its Watch.Kinds may answer them, too,
	// with Session.Decide; the first answer counts. If there is neither, a command that needs an answer is rejected at once.
	Approver Approver
	// ApprovalDeadline is how long a question waits for an answer once it is put; zero means forever. After that OnDeadline
	// is the answer: denied (the default; reported as messages.DecisionTimedOut), abort or approved.
	ApprovalDeadline time.Duration
	OnDeadline       messages.DecisionKind
	// Keyboard says what becomes of other input to a process while a person has its keyboard: see Session.TakeKeyboard. The zero value
	// is messages.KeyboardRefuses.
	Keyboard messages.KeyboardPolicy
	// DeterministicIDs numbers processes from 1000 on instead of at random; for tests.
	DeterministicIDs bool
}

// checkApproval fills in the policies, or finds what is wrong with them.
func (o *SessionOptions) checkApproval() error {
	if o.Sandbox == nil {
		o.Sandbox = &messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess}
	}
	o.Sandbox = messages.Clone(o.Sandbox)
	if err := cmp.Or(o.Approval.Check(), o.RulesUnreadable.Check(), o.Executions.Check(), o.Sandbox.Check(), checkHosts(o.Sandbox), o.LeastAssurance.Check(), o.Limits.Check(), o.Keyboard.Check()); err != nil {
		return err
	}
	if o.ApprovalDeadline < 0 {
		return badOption("SessionOptions.ApprovalDeadline", o.ApprovalDeadline, "use a positive duration, or 0 for none")
	}
	switch o.OnDeadline {
	case "", messages.DecisionDenied, messages.DecisionTimedOut, messages.DecisionAborted, messages.DecisionApproved:
		return nil
	}
	return badOption("SessionOptions.OnDeadline", o.OnDeadline, "use denied, abort or approved")
}

// sessionName is what SessionOptions.ID may be: such a name stands unchanged in logs, subjects and paths.
var sessionName = regexp.MustCompile(`^[A-Za-z0-9_-]{0,64}$`)

func (o SessionOptions) withDefaults() (SessionOptions, error) {
	if !sessionName.MatchString(string(o.ID)) {
		return o, badOption("SessionOptions.ID", fmt.Sprintf("%.70q", string(o.ID)), "use at most 64 letters, digits, hyphens and underscores")
	}
	switch o.OnLeaderExit {
	case "", messages.LeaderExitEndsTree, messages.LeaderExitKeepsTree:
	default:
		return o, badOption("SessionOptions.OnLeaderExit", o.OnLeaderExit, "use end_tree or keep")
	}
	if err := o.checkApproval(); err != nil {
		return o, err
	}
	if o.View.Check() != nil {
		return o, badOption("SessionOptions.View", o.View, "use raw, text or screen")
	}
	for _, option := range []struct {
		name       string
		value      *int
		zero, most int
	}{
		{"OutputTokens", &o.OutputTokens, messages.DefaultOutputTokens, math.MaxInt},
		{"MaxProcesses", &o.MaxProcesses, DefaultSessionMaxProcesses, maxProcesses},
		{"WarnProcesses", &o.WarnProcesses, DefaultSessionWarnProcesses, math.MaxInt},
	} {
		if *option.value < 0 || *option.value > option.most {
			return o, badOption("SessionOptions."+option.name, *option.value,
				fmt.Sprintf("use 1 to %d, or 0 for the default of %d", option.most, option.zero))
		}
		if *option.value == 0 {
			*option.value = option.zero
		}
	}
	if o.LongestPoll < 0 {
		return o, badOption("SessionOptions.LongestPoll", o.LongestPoll,
			fmt.Sprintf("use %v or more, or 0 for the default of %v", messages.MinPoll, messages.DefaultMaxPoll))
	}
	if o.LongestPoll == 0 {
		o.LongestPoll = messages.DefaultMaxPoll
	}
	if o.ProtectedProcesses == 0 {
		o.ProtectedProcesses = DefaultSessionProtectedProcesses
	}
	o.ProtectedProcesses = max(o.ProtectedProcesses, 0)
	o.Environment = messages.Clone(o.Environment)
	var err error
	o.Dir, err = absolute(o.Dir, o.Sandbox.Type == messages.SandboxWorkspaceWrite)
	return o, err
}

// absolute resolves a host's directory. Where commands can write in it, PWD must not say something else about the working directory
// than the kernel.
func absolute(dir string, writable bool) (string, error) {
	full := filepath.Clean(dir)
	var err error
	if !filepath.IsAbs(dir) {
		var here string
		if here, err = follow.Here(); here != "" && !writable {
			err = nil
		}
		full = filepath.Join(here, dir)
	}
	if err == nil && strings.ContainsRune(dir, 0) {
		err = errors.New("it contains a NUL byte")
	}
	if err != nil {
		return "", &messages.Error{Code: messages.ErrInvalidRequest, Op: "configure", Subject: "SessionOptions.Dir",
			Detail: fmt.Sprintf("%q cannot be made absolute: %v; use an absolute path", dir, err)}
	}
	return full, nil
}

// checkEnvironment finds an environment with which every command would fail.
func checkEnvironment(base []string, policy messages.EnvironmentPolicy) error {
	_, err := ptyio.BuildEnvironment(base, policy, nil)
	if typed, ok := errors.AsType[*messages.Error](err); ok {
		return &messages.Error{Code: typed.Code, Op: "configure", Subject: "SessionOptions.Environment",
			Detail: typed.Subject + ": " + typed.Detail, Hint: typed.Hint}
	}
	return err
}
