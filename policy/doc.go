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
//     external-sandbox (EXT), where something else confines it. Under DFA and EXT there is no sandbox of ours.
//   - The sandbox permissions are what the request itself asks for: use_default, require_escalated (no sandbox), or
//     with_additional_permissions (a wider one).
//   - A segment is one of the commands that a script consists of. A script is taken apart only if it is nothing but
//     programs, their literal arguments, and ; && || | and newlines between them, run by a shell of the system's or a
//     trusted one. Output may be discarded or joined (>/dev/null, 2>&1). A command that only steers the shell, such as
//     set -e, || exit 1 and test -f x, does not count beside other segments. Any other script, and one that is very long,
//     is one segment: the whole argv, shell included.
//   - A rule says allow, prompt or forbidden about segments that begin with certain words.
//
// # What is asked when
//
// First, a request to run without a sandbox is refused under never and on-failure, and one for a wider sandbox under every
// approval policy but on-request; a request that is not refused leads to a question. Then each segment gets a verdict: that
// of the strictest rule that matches it or, if none does, one from what is known about programs. The strictest segment
// decides for the whole command. The classes of commands:
//
//   - S: known to be safe, every segment of it. Only the policy untrusted treats it differently from U. git is never known
//     to be safe without a sandbox, because a repository may configure what git status runs.
//   - U: unknown: every other command.
//   - D: dangerous: it removes files by force, directly or through wrappers such as sudo, env and shells.
//   - A: every segment matches an allow rule and no stricter one.
//   - P: some segment matches a prompt rule. F: some segment matches a forbidden rule.
//   - E: U that asks for require_escalated. SE: S that does. W: U that asks for with_additional_permissions.
//
// This is the decision table. It says whether the command runs without a question (run), a person is asked (ask), or it
// is rejected (rej). An exclamation mark means that the first attempt has no sandbox. The word after the slash says
// what follows if the sandbox stops that attempt: the denial is the result (return), or a person is asked whether the
// command shall run again without a sandbox (ask). An approval of the first attempt does not answer that second question,
// because the command can forge its output, and so the denial. Where there is no sandbox of ours there is no denial.
//
//	policy                        |sandbox  |S          |U          |D          |A    |P          |F   |E    |SE   |W
//	never                         |RO, WW   |run/return |run/return |rej        |run! |rej        |rej |rej  |rej  |rej
//	never                         |DFA, EXT |run        |run        |rej        |run! |rej        |rej |rej  |rej  |rej
//	on-request                    |RO, WW   |run/return |run/return |ask/return |run! |ask/return |rej |ask! |ask! |ask/return
//	on-request                    |DFA, EXT |run        |run        |ask        |run! |ask        |rej |run! |run! |run
//	untrusted                     |RO, WW   |run/ask    |ask/ask    |ask/ask    |run! |ask/ask    |rej |ask! |ask! |rej
//	untrusted                     |DFA, EXT |run        |ask        |ask        |run! |ask        |rej |ask! |run! |rej
//	on-failure                    |RO, WW   |run/ask    |run/ask    |ask/ask    |run! |ask/ask    |rej |rej  |rej  |rej
//	on-failure                    |DFA, EXT |run        |run        |ask        |run! |ask        |rej |rej  |rej  |rej
//	granular                      |RO, WW   |run/ask    |run/ask    |ask/ask    |run! |ask/ask    |rej |ask! |ask! |rej
//	granular, no sandbox_approval |RO, WW   |run/return |run/return |rej        |run! |ask/return |rej |rej  |rej  |rej
//	granular, no rules            |RO, WW   |run/ask    |run/ask    |ask/ask    |run! |rej        |rej |ask! |ask! |rej
//	granular                      |DFA, EXT |run        |run        |ask        |run! |ask        |rej |run! |run! |rej
//	granular, no sandbox_approval |DFA, EXT |run        |run        |rej        |run! |ask        |rej |rej  |rej  |rej
//	granular, no rules            |DFA, EXT |run        |run        |ask        |run! |rej        |rej |run! |run! |rej
//
// The table leaves out:
//
//   - Prompt and forbidden rules look at every command that is written literally, wherever it stands in a script, in the text
//     of a here-document or of echo that a shell gets, through sudo, env, xargs, strace, nested shells and the like, and past
//     options of git, docker, podman and kubectl before the subcommand. Nothing that is found in these ways allows anything.
//     Allow rules hold only where everything that runs is known.
//   - A command is unreadable if a shell would run something that its text does not say: a text that is computed, read from a pipe or
//     typed, or too long or damaged, a command whose name is computed, a script for a shell that is not known, or the value of
//     BASH_ENV, ENV, PS4 or PROMPT_COMMAND. Files that are named, other interpreters and arguments that are variables do not make
//     it so. Where some rule forbids or asks, an unreadable command is asked about like one with a prompt rule, even if a rule
//     allows it. Where a rule may not lead to a question, or nobody is there to be asked, [Snapshot.Unreadable] decides: it
//     runs, the default, or is rejected. [Plan.Unread] says why in all cases.
//   - An allow rule also holds for dangerous programs: what is known about programs counts only where no rule matches.
//   - One allowed segment among others that are merely unknown does not take the sandbox away; only A does.
//   - A prompt rule with require_escalated, where that is not refused, is ask!.
//   - A script of one command with a here-document, whose text the command reads, is judged by the rules as that command;
//     but it is not known to be safe, and no rule is offered for it.
//   - Allow rules and safe names count only where names and words have their usual meaning. If the request brings variables
//     of its own, or another argv[0], there are no classes S and A. A program that was found outside of the system's own
//     directories, for an argv or for a script, is known by its path and not by its name; prompt and forbidden rules
//     for the name hold for it, too, and a rule file's host_executable can say that a path stands for its name. A script's
//     shell looks for names later, and by itself. So nothing at all is known of a name if an earlier directory in PATH is
//     relative or empty, or lies in the working directory, the session's, a writable root or a directory for
//     temporary files: a program could be put there.
//   - A reason to reject names the setting that led to it. A reason to ask is the rule's justification or else what is
//     known about the command, followed by the caller's reason, which is marked as such and shortened.
//
// # Patches
//
// A patch is judged by the files that it changes ([Patch]), where they lie after all links were followed. Inside means that commands can
// write all of them. Outside means that one lies elsewhere, and .git that one has a protected name, or lies where the sandbox keeps commands
// from writing for another reason, as in the repository that a file .git names.
//
//	policy                        |inside, WW |outside, WW |.git, WW |RO  |DFA, EXT
//	never                         |run        |rej         |rej      |rej |run
//	on-request                    |run        |ask         |ask      |ask |run
//	untrusted                     |ask        |ask         |ask      |ask |ask
//	on-failure                    |run        |ask         |ask      |ask |run
//	granular                      |run        |ask         |ask      |ask |run
//	granular, no sandbox_approval |run        |rej         |rej      |rej |run
//	granular, no rules            |run        |ask         |ask      |ask |run
//
// A prompt or forbidden rule for the word apply_patch holds for patches, too; an allow rule does not. A file that must not be read, or
// that the host protects, is never asked about. An approval for the session covers the patches that change exactly the same files, whatever they write. A patch is
// applied in the sandbox even when it is approved; the approval adds the directories of the files that were asked about.
//
// # Hosts
//
// A running command that wants to talk to a host ([Host]) is judged by package hosts, and this package says whether its question may be put. A host
// that no rule names, where the default is to ask, is asked about under every policy but never, and granular without sandbox_approval; one
// that a rule asks about under every policy but never, and granular without rules. What a rule forbids, and addresses of this
// machine, its links, its cloud and private networks, are never asked about. An approval covers one host, port and protocol: for the process until
// it ends, or for the session. A rule is offered, unless a rule asks, which no other outweighs.
//
// # Executions
//
// A program that a process of a running command is about to execute ([Execution]) meets the prompt and forbidden rules, and no others; allow rules and what is
// known about programs have no say. It counts under three names, and the strictest rule decides: the path as it was written, the file that it
// leads to, and the name that it is given as its own. A link such as git-push that leads to git is also git push. Options of git, docker,
// podman and kubectl before the subcommand are skipped. What a shell or a wrapper is told to run is judged when that executes it.
// A prompt rule asks under every policy but never, and granular without rules, where the execution is refused; no rule is offered, because none
// outweighs one that asks. A prompt rule does not ask again about a command that the command line itself has, in these words and with the program that
// the name led to. An execution that cannot be read is refused. An approval for the session covers the same file
// with the same arguments in the same directory. Under [Snapshot.Executions] an allow rule does not lift the sandbox.
//
// Not seen are builtins of shells, the interpreter that a file names behind #!, the program that ld.so is told to run, a copy under another name, and what runs
// without a sandbox. Rules hold for programs that do not set out to deceive; the sandbox holds for all.
//
// Package command, below this one, knows programs and the commands that a script consists of. Package rules reads rule
// files. Package hosts decides about hosts on the network. The command execbus policy check says which rule decides.
//
// # What is remembered, and where it ends
//
// Approved runs the command once: the attempt that was asked about. About a host it holds for what shows the credential of the process that asked,
// until that ends; of connections that show none, until no command of the session runs. So does denied, which for a command holds for nothing but that one.
//
// Approved for the session makes equal commands run without a question until the session ends, the grant expires or it
// is revoked. A session remembers at most 1,024 approvals. Commands with the same [Plan.CacheKey] are equal. They are
// the same command, in the same directory, with the same environment from the request, the same permissions, under the
// same sandbox policy, and with the same consequence of an approval, so that one for a confined attempt never becomes
// one without a sandbox. An approval of a second attempt after a denial is remembered by itself: equal commands then run
// again without a sandbox whenever it stops them, but their first attempts are asked about as before. A plain script of a single command equals that command, unless the request brings variables of
// its own or another argv[0], which mean something else to the shell. The path of a trusted shell does not matter, nor
// do yield time, output limits and justification. It does matter whether the input stays open, as a terminal's does: an
// approval with open input covers the command with closed input, but not the reverse, because no person has seen the
// code that will be typed into python3. A grant answers a question; it never changes a rejection. A path in additional
// permissions stands for what it leads to: a directory, known by device, inode and time of birth, and the names below it. If
// it leads elsewhere when the command is to start, or the next time, that is a new question. Where the machine cannot say
// where paths lead, they count as they are written, and the question says so.
//
// Approved with a rule writes an allow rule for [Plan.Amendment] to a file. It holds for every command that begins with
// these words, in every session, without a question, and without a sandbox except under [Snapshot.Executions], before the command that was
// asked about goes on. No rule is offered where one matches already, where the prefix would allow everything (shells, interpreters, env,
// sudo, git alone), where it would not hold, for a whole script, as after bash -c or python3 -c, or for a program or a script
// that lies where commands may write: what is there later would run without a sandbox. [Choices] explains all this to the person who is asked, and [Display]
// shows the command so that nothing in it is hidden. The plan's Segments are the commands that run: at most 10, and how
// many more, those that are asked about first, each with the reason and with the host names that may not be what they
// look like.
//
// # Guarantees
//
//   - A command that is rejected is never started, and has no ExecStarted. Each decision is an event, a log record and a
//     count, with its source: rule, cache, policy, user, deadline or absence.
//   - A session asks one question at a time. Equal questions that wait are merged, unless only listeners to single calls
//     could answer. Each question that is shown is resolved once, even if an actor crashes meanwhile; a second answer gets an
//     error. At most 256 wait.
//   - If nobody can be asked, a command is rejected at once, and the error says what to configure. Somebody can be asked if
//     there is an approver, or a subscriber that names the event. If the last one leaves, the open questions are
//     rejected within about 250 ms.
//   - A question stops the clock of the call that asked for the command, and of no other call. The command has no slot yet,
//     so no running process has to end for it.
//   - The actor that asks is replaced once if it crashes, without the approvals for the session, and an ExecNotice says so.
//   - The program that was looked at for the plan is the one that runs, even if PATH changes meanwhile. A command whose
//     program was not found is not asked about and does not run. The content of programs is not looked at again, and the
//     programs that they and scripts start in turn are, only where executions are seen.
//
// # What you must not assume
//
// That a command which runs without a question is harmless. It is as harmless as the sandbox makes it. Under DFA, EXT, an
// allow rule or an approval without a sandbox it may do anything.
//
// That rules see everything. They match words. They do not see what a program does with its arguments, its configuration,
// or a file that changed since the approval. A forbidden rule does not match a command that a script puts together from
// expansions, or that a program runs which nobody here knows: such a command is unreadable, or not noticed at all. What is typed
// into a shell that runs already meets no rule, unless its executions are seen. To forbid something for certain, confine the command.
//
// That a name in a script is the program you know. [Request] says where it led at the time of the lookup, in the PATH
// that the host gives to commands. The start files of a login shell may change PATH, and a symbolic link may change as
// well. Without a lookup, a name is taken for the program that usually has it.
//
// That safe means without effect: git status, for one, runs programs that the repository configures. Safe commands run in
// the sandbox, too. Files under /proc, /sys and /dev are not safe to read, wherever a link to them lies at the time of the lookup;
// without [Request.Leads] a link is trusted. Links inside of directories that grep -R and diff -r read are trusted, too.
//
// That a plan holds forever: rules, grants and policies change. Make a new one for each command, and for each that waits
// after an answer was given.
package policy
