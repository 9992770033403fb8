package policy

import (
	"hash/maphash"
	"slices"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/command"
	"github.com/execbus/execbus/policy/rules"
)

// MakePlan decides about one command, one patch, one host, or one execution. It is a pure function: it reads no file and starts nothing, and for equal arguments
// it returns equal plans as long as Granted answers the same.
func MakePlan(request Request, snapshot Snapshot) Plan {
	if request.Patch != nil {
		return planPatch(request, snapshot)
	}
	if request.Host != nil {
		return planHost(request.Host, snapshot)
	}
	if request.Execution != nil {
		return planExecution(request.Execution, snapshot)
	}
	if reason := refuse(request.CommandPolicy, snapshot.Approval); reason != "" {
		return Plan{Decision: Reject, Reason: reason, Source: messages.DecidedByPolicy, FirstAttempt: Sandboxed, OnDenial: Return}
	}
	m := newMaker(request, snapshot)
	m.judgeAll()
	plan := m.decide()
	if plan.Decision == Reject {
		return plan
	}
	plan.Amendment = m.amendment(plan)
	if plan.Decision == Run && plan.OnDenial != AskTo {
		return plan // there will be no question, and making a key takes a third of the time
	}
	plan.Segments, plan.MoreSegments = m.shown()
	plan.CacheKey = m.key(plan, request.OpenInput)
	m.remember(&plan, snapshot.Granted)
	return plan
}

// remember applies what was approved before. A command with open input is the more dangerous one, so its approval also covers the
// command with closed input. An approval of the first attempt never covers a second one without a sandbox.
func (m *maker) remember(plan *Plan, granted func(key string) bool) {
	if granted == nil {
		return
	}
	keys := []string{plan.CacheKey}
	if !m.request.OpenInput {
		keys = append(keys, m.key(*plan, true))
	}
	again := plan.OnDenial == AskTo && slices.ContainsFunc(keys, func(key string) bool { return granted(AfterDenial(key)) })
	if again {
		plan.OnDenial = Retry
	}
	first := plan.Decision == Ask && slices.ContainsFunc(keys, granted)
	if first {
		plan.Decision = Run
	}
	if first || again && plan.Decision == Run {
		plan.Source = messages.DecidedByCache
	}
}

// maker makes one plan.
type maker struct {
	request    Request
	approval   messages.ApprovalPolicy
	sandbox    messages.SandboxPolicy
	rules      *rules.Set
	strict     bool // some rule forbids or asks
	unreadable messages.RulesUnreadable
	executions bool // Snapshot.Executions
	understood command.Understanding
	commands   []invoked
	segments   []segment // the verdict on each of the commands
	dirs       []string  // the directories that a script may be in at the current command
	// sessionDir and tempDir are Snapshot.Dir and Snapshot.TempDir.
	sessionDir, tempDir string
	// altered says that the request changes what names and words mean, by variables or another argv[0]. Allow rules and
	// the list of safe programs then do not apply, because other programs may run than those that they describe.
	altered bool
}

// segment is the verdict on one of the commands.
type segment struct {
	verdict verdict
	rule    *rules.Match // the rule that decided; nil if none did
	matched bool         // some rule matches, even one that does not count
	danger  bool         // no rule decided, and it is dangerous
	idle    bool         // it does nothing, so the other segments decide
	unread  string       // why prompt and forbidden rules could not be applied to all of it
	closed  bool         // that is why it is asked about or forbidden
}

// verdict is the judgement on one command, from the weakest to the strictest.
type verdict int

const (
	fine verdict = iota
	ask
	forbid
)

func newMaker(request Request, snapshot Snapshot) maker {
	request.Program = tidyProgram(request.Program)
	m := maker{request: request, approval: snapshot.Approval, sandbox: snapshot.Sandbox, rules: snapshot.Rules,
		strict: snapshot.Rules.Strict(), unreadable: snapshot.Unreadable, executions: snapshot.Executions,
		understood: command.Understand(request.line(snapshot.TrustedShells))}
	m.altered = request.Argv0 != "" && (len(request.Argv) == 0 || request.Argv0 != request.Argv[0]) || changes(request.Environment)
	m.sessionDir, m.tempDir = snapshot.Dir, snapshot.TempDir
	m.commands = m.invocations()
	return m
}

// changes reports whether a request says anything about the environment.
func changes(e *messages.EnvironmentPolicy) bool {
	return e != nil && (e.Inherit != "" && e.Inherit != messages.InheritAll || e.DropSecrets || e.Exact ||
		len(e.Exclude)+len(e.Set)+len(e.IncludeOnly) > 0)
}

// Checked is one of the commands that a command line consists of, with the rules that count for it: those that match it, and the
// prompt and forbidden rules that match any command inside of it that [command.Search] finds. So a prompt or forbidden rule for git
// push also holds for "if true; then git push & fi" and for "sudo git push"; an allow rule does not.
type Checked struct {
	Words   []string
	Matches []rules.Match
}

// Check finds the rules that count for a command line, with no lookup of programs, and says why rules that forbid or ask cannot be
// applied to all of it.
func Check(set *rules.Set, argv []string) (all []Checked, unread string) {
	u := command.Understand(command.Line{Argv: argv})
	for i, found := range surveys(argv, u.Commands, u.Complex) {
		all = append(all, Checked{u.Commands[i], matching(set, u.Commands[i], found)})
		if set.Strict() && unread == "" {
			unread = found.Unreadable
		}
	}
	return all, unread
}

// matching are the rules that count for a command, given the search through it.
func matching(set *rules.Set, words []string, found command.Survey) []rules.Match {
	matches := slices.Clip(set.Match(words))
	for _, inner := range found.Commands[min(1, len(found.Commands)):] { // the first is the whole
		matches = append(matches, slices.DeleteFunc(set.Match(inner), allows)...)
	}
	return matches
}

// judgeAll judges the commands. Those that only steer the shell do not count if there are others.
func (m *maker) judgeAll() {
	steering := 0
	m.dirs = []string{m.request.Dir}
	found := surveys(m.request.Argv, m.understood.Commands, m.understood.Complex)
	if len(found) == 0 { // an empty argv
		found = make([]command.Survey, len(m.commands))
	}
	for i, c := range m.commands {
		s := m.judge(c, found[i])
		if m.understood.Script {
			m.dirs = command.Moved(m.dirs, c.words)
		}
		s.idle = m.understood.Script && c.written == nil && s.rule == nil && len(c.words) > 0 && command.Idle(c.words)
		if s.idle {
			steering++
		}
		m.segments = append(m.segments, s)
	}
	for i := range m.segments {
		s := &m.segments[i]
		s.idle = s.idle && steering < len(m.segments)
	}
}

// surveys are the searches through the commands of a command line. What a script as a whole runs beyond them counts for the command
// that gets it: the shell in echo ls | sh.
func surveys(argv []string, commands [][]string, complex bool) (all []command.Survey) {
	all = command.SearchEach(commands)
	if len(all) < 2 && !complex {
		return all
	}
	seed, known, dangerous, gets := maphash.MakeSeed(), map[uint64]bool{}, false, len(all)-1
	for i := range slices.Backward(all) {
		found := &all[i]
		dangerous = dangerous || found.Dangerous
		if found.ReadsInput || found.Unreadable != "" || slices.ContainsFunc(found.Commands, command.Open) {
			gets = i
		}
		found.Unreadable, found.ReadsInput = "", false
		for _, words := range found.Commands {
			known[digest(seed, words)] = true
		}
	}
	whole, to := command.Search(argv), &all[gets]
	to.Unreadable, to.ReadsInput, to.Dangerous = whole.Unreadable, whole.ReadsInput, to.Dangerous || whole.Dangerous && !dangerous
	for _, words := range whole.Commands[1:] {
		if !known[digest(seed, words)] {
			to.Commands = append(to.Commands, words)
		}
	}
	return all
}

// digestWords bounds the words of a command that tell it from others.
const digestWords = 64

func digest(seed maphash.Seed, words []string) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, word := range words[:min(len(words), digestWords)] {
		_, _ = h.WriteString(word)
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}

// judge applies the rules to a command. If no rule matches, it uses what is known about programs.
func (m *maker) judge(c invoked, found command.Survey) segment {
	matches := matching(m.rules, c.words, found)
	if c.written != nil {
		// A prompt or forbidden rule for the name holds for every path.
		matches = append(matches, slices.DeleteFunc(m.rules.Match(c.written), allows)...)
	}
	s := segment{matched: len(matches) > 0, unread: m.unread(found)}
	if m.altered {
		matches = slices.DeleteFunc(matches, allows)
	}
	if len(matches) == 0 {
		s.verdict, s.danger = m.guess(c.words, found.Dangerous)
	} else {
		rule, _ := rules.Strictest(matches)
		s.rule, s.verdict = &rule, verdictOf(rule)
	}
	if s.unread != "" && s.verdict == fine {
		switch {
		case m.mayAskAboutRules():
			s.rule, s.verdict, s.closed = nil, ask, true
		case m.unreadable == messages.UnreadableReject:
			s.rule, s.verdict, s.closed = nil, forbid, true
		}
	}
	return s
}

// unread says why rules that forbid or ask cannot be applied to all that a command runs.
func (m *maker) unread(found command.Survey) string {
	switch e := m.request.Environment; {
	case !m.strict:
		return ""
	case found.Unreadable == "" && found.ReadsInput && m.request.OpenInput:
		return "a shell runs what is typed"
	case found.Unreadable == "" && e != nil && command.SetsCode(e.Set):
		return "the request sets a variable whose value a shell runs"
	}
	return found.Unreadable
}

// mayAskAboutRules reports whether a rule may lead to a question.
func (m *maker) mayAskAboutRules() bool {
	mode := m.approval.Mode
	return mode != messages.ApproveNever && (mode != messages.ApproveGranular || m.approval.Granular.Rules)
}

// guess judges a command that no rule matches.
func (m *maker) guess(words []string, dangerous bool) (v verdict, danger bool) {
	mode := m.approval.Mode
	widens := override(m.request.CommandPolicy) && m.sandbox.Confined()
	switch {
	case mode == messages.ApproveUntrusted && !widens && m.safe(words):
		return fine, false
	case dangerous && mode == messages.ApproveNever:
		return forbid, true
	case dangerous, mode == messages.ApproveUntrusted, widens: // under never and on-failure, a request for more has been refused before
		return ask, dangerous
	}
	return fine, false
}

func (m *maker) safe(words []string) bool {
	if m.altered || !m.understood.Plain {
		return false
	}
	if m.understood.Script && command.Idle(words) {
		return true
	}
	var leads func(string) string
	if m.request.Leads != nil {
		leads = func(path string) string { return m.request.Leads[path] }
	}
	return !slices.ContainsFunc(m.dirs, func(dir string) bool {
		return !command.Safe(words, command.Setting{Confined: m.sandbox.Confined(), Dir: dir, Leads: leads})
	})
}

// decide combines the segments; the strictest decides.
func (m *maker) decide() Plan {
	plan := Plan{Decision: Run, Source: messages.DecidedByPolicy, FirstAttempt: Sandboxed, OnDenial: Return}
	var byRule, byGuess *segment // the first segment that asks
	var allowing *segment        // the first one
	bypass, readable := true, false
	for i := range m.segments {
		s := &m.segments[i]
		if plan.Unread == "" {
			plan.Unread = s.unread
		}
		switch {
		case s.idle:
			continue
		case s.verdict == forbid:
			return m.forbidden(i)
		case s.verdict == ask && s.rule != nil:
			if byRule == nil || len(s.rule.Prefix) > len(byRule.rule.Prefix) {
				byRule = s
			}
		case s.verdict == ask && (byGuess == nil || s.danger && !byGuess.danger):
			byGuess = s
		}
		readable = readable || s.verdict == ask && !s.closed
		if bypass = bypass && s.verdict == fine && s.rule != nil; bypass && allowing == nil {
			allowing = s
		}
	}
	if byRule != nil || byGuess != nil {
		plan.Decision = Ask
		if reason := m.mayNotAsk(byRule, byGuess); reason != "" {
			return Plan{Decision: Reject, Reason: reason, Source: source(byRule != nil), Rule: byRule.named(), FirstAttempt: Sandboxed, OnDenial: Return}
		}
		plan.Reason = m.whyAsk(byRule)
		if !readable && m.unreadable != messages.UnreadableReject {
			plan.Unasked = Run
		}
	}
	plan.Source, plan.Rule = source(bypass || byRule != nil), byRule.named()
	if bypass {
		plan.Rule = allowing.named()
	}
	if bypass && !(m.executions && m.sandbox.Confined()) || m.request.SandboxPermissions == messages.PermissionsRequireEscalated {
		plan.FirstAttempt = Unsandboxed
	} else if m.sandbox.Confined() && m.retries() {
		plan.OnDenial = AskTo
	}
	return plan
}

// retries reports whether a command that the sandbox has stopped may run again without it.
func (m *maker) retries() bool {
	switch m.approval.Mode {
	case messages.ApproveUntrusted, messages.ApproveOnFailure:
		return true
	case messages.ApproveGranular:
		return m.approval.Granular.SandboxApproval
	}
	return false
}

func source(rule bool) messages.DecisionSource {
	if rule {
		return messages.DecidedByRule
	}
	return messages.DecidedByPolicy
}

// verdictOf is the rule's decision as a verdict. An unknown decision forbids.
func verdictOf(m rules.Match) verdict {
	switch m.Decision {
	case rules.Allow:
		return fine
	case rules.Prompt:
		return ask
	}
	return forbid
}

func allows(m rules.Match) bool { return m.Decision == rules.Allow }
