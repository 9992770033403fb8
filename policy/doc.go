// Package policy decides whether a command may run, and who is asked.
//
//	plan := policy.MakePlan(
//		policy.Request{Argv: []string{"/bin/bash", "-lc", "git push"}, Program: "/bin/bash", Dir: "/work"},
//		policy.Snapshot{Approval: messages.ApprovalPolicy{Mode: messages.ApproveOnRequest}, Rules: rules},
//	)
//	switch plan.Decision {
//	case policy.Run: // as plan.FirstAttempt says; if the sandbox stops it, what plan.OnDenial says
//	case policy.Ask: // put policy.Choices to a person, with plan.Reason
//	case policy.Reject: // tell the caller plan.Reason
//	}
//
// A plan is made by a pure function of one command and a snapshot of the session's policies, rules and grants. It can be
// made again at any time, and a running plan keeps the snapshot it was made from.
//
// # Words
//
//   - The approval policy says when a person is asked: never, on-request (the default), untrusted, on-failure, or granular,
//     which is on-request with reasons to ask that can be switched off.
//   - The sandbox policy says what a command may do: read-only (RO), workspace-write (WW), danger-full-access (DFA), or
//     external-sandbox (EXT), where somebody else confines. Under DFA and EXT no sandbox of ours exists.
//   - The sandbox permissions are what the request itself asks for: use_default, require_escalated (no sandbox), or
//     with_additional_permissions (a wider one).
//   - A segment is one of the commands that a script consists of. A script is taken apart only if it is nothing but
//     programs, their literal arguments, and ; && || | and newlines between them, run by a shell of the system's or a trusted
//     one. Output may be thrown away or joined (>/dev/null, 2>&1). What only steers the shell, such as set -e, || exit 1 and
//     test -f x, has no say beside other segments. Everything else, and a script that is very long, is one segment: the whole
//     argv, shell included.
//   - A rule says allow, prompt or forbidden about segments that begin with certain words.
//
// # What is asked when
//
// First, a request to run without a sandbox is refused under never and on-failure, and one for a wider sandbox under every
// approval policy but on-request; where it is not refused it leads to a question. Then each segment gets a verdict: from the
// rules if any matches it, the strictest of them, and otherwise from what is known about programs. The strictest segment
// decides for the whole command. The classes of commands:
//
//   - S: known to be safe, every segment of it. Only the policy untrusted makes a difference of it. git is never known to be
//     safe without a sandbox, because a repository may say what git status runs.
//   - U: unknown, which is everything else.
//   - D: dangerous: it removes files by force, directly or through wrappers such as sudo, env and shells.
//   - A: every segment matches an allow rule and no stricter one.
//   - P: some segment matches a prompt rule. F: some segment matches a forbidden rule.
//   - E: U that asks for require_escalated. SE: S that does. W: U that asks for with_additional_permissions.
//
// This is the decision table. run: nobody is asked. ask: a person is. rej: rejected. An exclamation mark: the first attempt is
// without a sandbox. After the slash stands what follows if the sandbox stops that attempt: return: the denial is the result;
// ask: it runs again without a sandbox if a person agrees; retry: it does so at once, since the first answer covers it. Where
// there is no sandbox of ours there is no denial.
//
//	policy                        |sandbox  |S          |U          |D          |A    |P          |F   |E    |SE   |W
//	never                         |RO, WW   |run/return |run/return |rej        |run! |rej        |rej |rej  |rej  |rej
//	never                         |DFA, EXT |run        |run        |rej        |run! |rej        |rej |rej  |rej  |rej
//	on-request                    |RO, WW   |run/return |run/return |ask/return |run! |ask/return |rej |ask! |ask! |ask/return
//	on-request                    |DFA, EXT |run        |run        |ask        |run! |ask        |rej |run! |run! |run
//	untrusted                     |RO, WW   |run/ask    |ask/retry  |ask/retry  |run! |ask/retry  |rej |ask! |ask! |rej
//	untrusted                     |DFA, EXT |run        |ask        |ask        |run! |ask        |rej |ask! |run! |rej
//	on-failure                    |RO, WW   |run/ask    |run/ask    |ask/retry  |run! |ask/retry  |rej |rej  |rej  |rej
//	on-failure                    |DFA, EXT |run        |run        |ask        |run! |ask        |rej |rej  |rej  |rej
//	granular                      |RO, WW   |run/ask    |run/ask    |ask/retry  |run! |ask/retry  |rej |ask! |ask! |rej
//	granular, no sandbox_approval |RO, WW   |run/return |run/return |rej        |run! |ask/return |rej |rej  |rej  |rej
//	granular, no rules            |RO, WW   |run/ask    |run/ask    |ask/retry  |run! |rej        |rej |ask! |ask! |rej
//	granular                      |DFA, EXT |run        |run        |ask        |run! |ask        |rej |run! |run! |rej
//	granular, no sandbox_approval |DFA, EXT |run        |run        |rej        |run! |ask        |rej |run! |run! |rej
//	granular, no rules            |DFA, EXT |run        |run        |ask        |run! |rej        |rej |run! |run! |rej
//
// What the table does not show:
//
//   - Prompt and forbidden rules look at every command that is written literally, wherever it stands in a script, and through
//     sudo, env, xargs, nested shells and the like. Allow rules hold for what is known to be all that runs.
//   - An allow rule also holds for dangerous programs: what is known about programs counts only where no rule matches.
//   - One allowed segment among others that are merely unknown does not take the sandbox away; only A does.
//   - A prompt rule with require_escalated, where that is not refused, is ask!.
//   - A script of one command with a here-document, whose text the command reads, is judged by the rules as that command; but
//     it is not known to be safe, and no rule is offered for it.
//   - Allow rules and safe names count only where names and words mean what they usually do. If the request brings variables
//     of its own, or another argv[0], there are no classes S and A. A program that was found outside of the system's own
//     directories, be it for an argv or for a script, is known by its path and not by its name; prompt and forbidden rules
//     for the name hold for it, too, and a rule file's host_executable can say that a path stands for its name. A script's
//     shell looks for names later, and by itself. So nothing at all is known of a name if a directory that comes before in
//     PATH is relative or empty, lies in the working directory, the session's, a writable root or a directory for temporary
//     files: a program could be put there.
//   - A reason to reject names the setting that led to it. A reason to ask is the rule's justification, or else what is known
//     about the command and then, marked as such and shortened, what the caller says.
//
// What is known about programs, and which commands a script consists of, is in package command below this one; what rule
// files say, and how they are read, in package rules. The command execbus policy check says which rule decides.
//
// # What is remembered, and where it ends
//
// Approved runs the command once; where the table says retry, that includes a second attempt.
//
// Approved for the session makes equal commands run without a question until the session ends, the grant expires or it is
// revoked. Equal are those with the same [Plan.CacheKey]: the same command, in the same directory, with the same environment
// from the request, the same permissions, under the same sandbox policy, and with the same consequence of an approval, so
// that one for a confined attempt never becomes one without a sandbox. A plain script of a single command equals that
// command, unless the request brings variables of its own or another argv[0], which mean something else to the shell. The
// path of a trusted shell does not matter, nor do yield time, output limits and justification. Whether the input stays open
// does, as a terminal's does: an approval with open input covers the command with closed input, but not the reverse, for
// what is typed into python3 is code that nobody has seen. A grant answers a question; it never changes a rejection.
//
// Approved with a rule writes an allow rule for [Plan.Amendment] to a file. It holds for everything that begins with these
// words, in every session, without a question and without a sandbox. No rule is offered where one matches already, where the
// prefix would allow everything (shells, interpreters, env, sudo, git alone), or where it would not hold. [Choices] says all
// this to the person who is asked, and [Display] shows the command so that nothing in it hides. The plan's Segments are
// what runs, command by command, those that are asked about first, each with the reason and with host names that are not
// what they look like.
//
// # Guarantees
//
//   - A command that is rejected is never started, and has no ExecStarted. Each decision is an event, a log record and a
//     count, with its source: rule, cache, policy, user, deadline or absence.
//   - A session puts one question at a time. Equal ones that wait are one, unless only listeners to single calls could
//     answer. Each that is put is resolved once, even if something dies meanwhile; a second answer gets an error. At most 256 wait.
//   - With nobody to ask a command is rejected at once, and the error says what to configure. Nobody means: no approver, and
//     no subscriber that names the event. If the last one goes, the questions that wait are rejected within 250 ms or so.
//   - A question holds the clock of the call that asked for the command, and of no other call. The command has no slot yet,
//     so it costs no running process its own.
//   - What asks is replaced once if it crashes, without what was approved for the session, and an ExecNotice says so.
//   - A session remembers at most 1,024 approvals. A rule that a person makes holds in every session before the command goes
//     on.
//   - The program that was looked at for the plan is the one that runs, whatever becomes of PATH meanwhile. One that was not
//     there then is not asked about and does not run. The content of programs, and what they and scripts start in turn, are
//     not looked at again. A script's shell looks for names itself: they are believed only where PATH leads to the system's
//     directories, past none that commands can write to.
//   - An approval for the session of a command with closed input does not cover it with open input, such as a terminal's.
//   - A question shows each command of a script with the reason why it is asked about: at most 10, and how many more.
//
// # What you may not assume
//
// That a command which runs without a question is harmless: it is as harmless as the sandbox makes it. Under DFA, EXT, an
// allow rule or an approval without a sandbox it may do anything.
//
// That rules see everything. They match words. What a program does with its arguments, its configuration, or a file that
// changed since the approval is out of sight, and so is a command that a script puts together from expansions: a forbidden
// rule does not match it. To forbid for certain, confine.
//
// That a name in a script is the program you know. [Request] says where it led when somebody looked, in the PATH that the
// host gives to commands; a login shell's start files may change that, and so may a symbolic link. If nobody looked, a name
// is believed.
//
// That safe means without effect: git status, for one, does what the repository's configuration says. Safe commands run in
// the sandbox, too. What lies under /proc and /sys is not safe to read, but a symbolic link may lead there.
//
// That a plan holds for ever: rules, grants and policies change. Make a new one for each command, and for each that waits
// after an answer was given.
package policy
