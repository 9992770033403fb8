package main

import (
	"fmt"
	"os"
	"time"

	"github.com/execbus/execbus/messages"
)

// daemons starts three daemons with three children each, which leave its session and process group, lose their parents, and ignore
// the signals that usually end a process. Each says that it is ready.
const daemons = `
for daemon in 1 2 3; do
	(setsid sh -c '
		trap "" TERM HUP INT
		for child in 1 2 3; do (echo ready; exec sleep 1000) & done
		echo ready
		exec sleep 1000
	' &)
done
exec sleep 1000`

// trespass tries what a sandbox stops. Its argument is the pid of the host.
const trespass = `echo work > inside; echo "network off: $EXECBUS_SANDBOX_NETWORK_DISABLED"
kill -0 "$1" 2>/dev/null && echo "the host can get signals"
echo hook > .git/hook && echo ".git can be changed"
echo work > ../outside`

// Output of the flood: all of it, and how much the answer keeps at its beginning and at its end.
const (
	floodLines = "3000000"
	floodBytes = 22_888_896
	floodKept  = 512 << 10
)

// workspaceOnly lets commands write in their directory and nowhere else.
var workspaceOnly = &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, ExcludeSlashTmp: true, ExcludeTmpdirEnvVar: true}

func sh(script string, arguments ...string) messages.ExecCommand {
	return messages.ExecCommand{Argv: append([]string{"/bin/sh", "-c", script}, arguments...)}
}

func argv(words ...string) messages.ExecCommand { return messages.ExecCommand{Argv: words} }

// line types a line for the command of the step before.
func line(text string) messages.WriteStdin { return messages.WriteStdin{Bytes: []byte(text + "\n")} }

func scenes() []scene {
	makeDir := argv("mkdir", "-p", "new")
	withRule := argv("mkdir", "-p", "one")
	withRule.PrefixRule = []string{"mkdir", "-p"}
	interpreter := messages.ExecCommand{Argv: []string{"/bin/sh", "-i"}, TTY: true, Yield: new(messages.MinYield),
		Environment: &messages.EnvironmentPolicy{Set: map[string]string{"PS1": "next: ", "ENV": "", "HISTFILE": ""}}}
	both := "echo to stdout; echo to stderr >&2; exit 3"
	question := `Run this command\?`
	return []scene{
		{name: "short command", about: "a command that ends before its yield time: one call, one answer", steps: []step{
			{say: both + ", on pipes:", do: sh(both), see: []claim{
				{"the answer has the output of both streams", `Output:.*(to stdout.*to stderr|to stderr.*to stdout)`}, {"it has ended with code 3", `ended: exited, code\(3\)`}}},
			{say: "The same as a run to the end:", do: messages.RunCommand{Argv: sh(both).Argv}, see: []claim{
				{"each stream comes by itself", `exit code 3, stdout "to stdout\\n", stderr "to stderr\\n"`}}},
		}},
		{name: "session", about: "an interpreter on a terminal stays alive over several calls and survives Ctrl-C", steps: []step{
			{say: "First call: start a shell on a terminal, and wait 250 ms.", do: interpreter, see: []claim{{"it runs, and the answer has its id", `running with session ID \d+`}, {"it reads", `next: `}}},
			{say: "Second call: answer=$((6 * 7))", do: line("answer=$((6 * 7))"), see: []claim{{"it reads again", `next: `}}},
			{say: "Third call: it says what it remembers.", do: line(`echo "the answer" "is $answer"`), see: []claim{{"it remembers what the earlier call told it", `the answer is 42.*next: `}}},
			{say: "It is told to do something for ever.", do: line(`echo "for" "ever"; while :; do :; done`), see: []claim{{"it has begun", `for ever`}}},
			{say: "Ctrl-C, the byte 0x03, is typed on its terminal.", do: messages.WriteStdin{Bytes: []byte{ctrlC}}, see: []claim{{"it stops and reads again", `\^C.*next: `}}},
			{say: "It is asked again.", do: line(`echo "still" "$answer"`), see: []claim{{"it still remembers", `still 42`}}},
			{say: "The last call: exit 5", do: messages.WriteStdin{Bytes: []byte("exit 5\n"), Yield: new(30 * time.Second)}, see: []claim{
				{"it has ended with its own code", `ended: exited, code\(5\)`}}},
		}},
		{name: "flood", about: "a flood of output is kept within bounds, and the dropped bytes are counted exactly", steps: []step{
			{say: "seq 1 " + floodLines + ", for a model that wants at most 16 tokens:", do: messages.ExecCommand{Argv: []string{"seq", "1", floodLines},
				Yield: new(messages.MaxYield), MaxOutputTokens: new(16)}, see: []claim{
				{fmt.Sprintf("the kept and the dropped bytes are the %d that it wrote", floodBytes), fmt.Sprintf(`dropped: %d in all`, floodBytes)},
				{"no more than 1 MiB was kept for the answer", fmt.Sprintf(`\n%d bytes were kept`, 2*floodKept)}}},
			{say: "What the answer left out can still be read, as long as it is remembered:", do: messages.ReadOutput{
				Offset: new(int64(floodBytes - floodKept - 1000)), Max: 24}, see: []claim{{"these are the lines there", `2934340\n2934341\n2934342\n`}}},
			{say: "A read from the middle:", do: messages.ReadOutput{Offset: new(int64(floodBytes / 2)), Max: 24}, fails: messages.ErrOutputUnretained, see: []claim{
				{"it fails, and the error says what can be read", `this output is not kept; kept are bytes 0 to`}}},
		}},
		{name: "slow subscriber", about: "a subscriber that does not read loses output, learns exactly how much, and slows nobody", slow: true, steps: []step{
			{say: "Nobody reads the events of seq 1 2000000 until it has ended.", do: messages.ExecCommand{Argv: []string{"seq", "1", "2000000"},
				Yield: new(messages.MaxYield), MaxOutputTokens: new(16)}, see: []claim{
				{"there is a gap", `a gap: \d+ bytes`}, {"the bytes before, in and behind it are all that were written", `wrote 14888896 bytes; its events had or counted 14888896`}}},
		}},
		{name: "limit", about: "70 processes against the limit of 64: the least recently used make room", steps: []step{
			{say: "70 times: sleep 1000", do: start{argv("sleep", "1000"), 70}, see: []claim{
				{"a warning came before", `a warning: `}, {"six made room", `(terminated by prune.*){6}`}},
				unseen: []claim{{"they are the oldest", `process ([7-9]|\d\d) ended`}}},
			{say: "How many run?", do: count{}, see: []claim{{"as many as may", `64 processes run`}}},
			{say: "All are ended with one call.", do: terminateAll{}},
			{say: "How many run?", do: count{}, see: []claim{{"none", `\b0 processes run`}}},
		}},
		{name: "tree", about: "daemons that left their session and ignore SIGTERM are ended with their tree", needs: "setsid", steps: []step{
			{say: "A script starts 3 daemons with setsid and a double fork, each with 3 children. All ignore SIGTERM.", do: start{sh(daemons), 0},
				see: []claim{{"twelve have said that they are ready", `(ready.*){12}`}}},
			{say: "The script is terminated.", do: messages.Terminate{}, see: []claim{
				{"the record counts them and names no survivor", `; (1[2-9]|[2-9]\d) descendants ended, 0 survive`}}},
		}},
		{name: "question", about: "a command that is not known to be safe waits for a person's answer", approval: messages.ApproveUntrusted,
			answer: messages.Decision{Kind: messages.DecisionApproved}, steps: []step{
				{say: "The approval policy is untrusted. pwd is known to be safe:", do: sh("pwd"), unseen: []claim{{"there was no question", question}},
					see: []claim{{"it ran", `process 1 started`}}},
				{say: "mkdir is not. The tour itself presses the keys.", do: makeDir, see: []claim{
					{"it ran when a person had decided", question + `.*allowed by user.*process 2 started`}}},
				{say: "The directory:", do: argv("ls"), see: []claim{{"it is there", `\bnew\b`}}},
			}},
		{name: "remembered answer", about: "an answer for the session covers later commands, until it is revoked", approval: messages.ApproveUntrusted,
			answer: messages.Decision{Kind: messages.DecisionApprovedForSession}, steps: []step{
				{say: "A command, and a yes for the session:", do: makeDir, see: []claim{{"there was a question", question}}},
				{say: "The same command again:", do: makeDir, see: []claim{{"it ran because of the earlier answer", `allowed by cache`}}, unseen: []claim{{"there was no question", question}}},
				{say: "The answer is revoked.", do: revokeAll{}, see: []claim{{"it was remembered", `forgotten: mkdir -p new`}}},
				{say: "The same command once more:", do: makeDir, see: []claim{{"there was a question again", question}}},
			}},
		{name: "refusal", about: "a refused command does not run, and its caller learns why", approval: messages.ApproveUntrusted,
			answer: messages.Decision{Kind: messages.DecisionDenied, Rejection: "use the existing directory"}, steps: []step{
				{say: "A command, and a no:", do: makeDir, fails: messages.ErrRejected, see: []claim{{"nothing was started", `no process was started: rejected`}, {"the caller learns why", `exec: use the existing directory`}}},
				{say: "The directory:", do: argv("ls"), unseen: []claim{{"it does not exist", `\bnew\b`}}},
			}},
		{name: "amendment", about: "an answer becomes a rule in a file, for all commands that begin alike", approval: messages.ApproveUntrusted,
			answer: messages.Decision{Kind: messages.DecisionApprovedWithRule}, steps: []step{
				{say: "The caller of this command suggests a rule for commands that begin with mkdir -p.", do: withRule, see: []claim{{"the question shows the rule", question + `.*mkdir`}}},
				{say: "The rule file:", do: argv("cat", "../rules/default.rules"), see: []claim{{"it has the rule", `prefix_rule\(pattern=\["mkdir", "-p"\], decision="allow"\)`}}},
				{say: "Another command that begins with these words:", do: argv("mkdir", "-p", "two", "three"), see: []claim{{"a rule decided", `allowed by rule`}},
					unseen: []claim{{"there was no question", question}}},
				{say: "One without the -p:", do: argv("mkdir", "four"), see: []claim{{"it still needs an answer", question}}},
			}},
		{name: "sandbox", about: "a command in a sandbox writes in its workspace and nowhere else, and has no network", approval: messages.ApproveNever, sandbox: workspaceOnly, steps: []step{
			{say: "The sandbox policy is workspace-write.", do: sh(trespass, "sh", fmt.Sprint(os.Getpid())), see: []claim{
				{"it was told that there is no network", `network off: 1`}, {"the answer says what was denied", `Note: .*outside|Note: .*\.git`}}, unseen: []claim{
				{"where commands are isolated, .git stays as it is", `enforced: isolated.*\.git can be changed`}, {"and the host cannot get signals", `enforced: isolated.*the host can get signals`}}},
			{say: "Two files:", do: argv("cat", "inside", "../outside"), see: []claim{{"it has written in its workspace", `work`}, {"and not outside of it", `outside: No such file`}}},
		}},
		{name: "denied and retried", about: "a command that the sandbox stopped runs again without it, if a person agrees", approval: messages.ApproveOnFailure,
			answer: messages.Decision{Kind: messages.DecisionApproved}, sandbox: workspaceOnly, steps: []step{
				{say: "echo text > ../file, under the approval policy on-failure:", do: sh("echo trying; echo text > ../file"), see: []claim{
					{"first by policy, in the sandbox; then by a person, without it", `allowed by policy, in the sandbox.*attempt 1 was denied.*` + `Run it again without a sandbox\?.*allowed by user, without a sandbox`}}},
				{say: "The file:", do: argv("cat", "../file"), see: []claim{{"the second attempt has written it", `text`}}},
			}},
	}
}
