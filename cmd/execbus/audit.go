package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/execbus/execbus/audit"
	"github.com/execbus/execbus/messages"
)

// Exit codes of the commands about audit logs.
const (
	exitNotClosed = 3
	exitDropped   = 4
	exitNothing   = 3
)

const auditVerifyUsage = `Usage:
  execbus audit verify [--anchor LINES:DIGEST]... [--json] FILE

Says whether an audit log is as it was written: complete; not closed, because its host writes it now, or was killed; or broken, and at which
line. The head of the log, which tells whether lines are missing at its end, is in the file FILE.head.

  --anchor LINES:DIGEST  the number of lines and the last digest that the log had once, as an event audit_anchored or an earlier call has
                         said them. A log that does not begin with those lines is broken, even if its head was changed, too
  --json                 print JSON

Exit codes:
  0  complete                             1  broken, or it cannot be read
  3  not closed                           2  wrong usage
  4  complete, but events were dropped

Examples:
  execbus audit verify audit.jsonl
  execbus audit verify --anchor "$(cat anchor)" audit.jsonl
`

const auditShowUsage = `Usage:
  execbus audit show [--kind KIND]... [--process N] [--session ID] [--json] FILE

Prints an audit log, a line for each event, up to where the log is broken, if it is.

  --kind KIND   only events of a kind, such as tool_decision, exec_started or exec_ended
  --process N   only events of a process
  --session ID  only events of a session; the beginning of its id is enough
  --json        print the lines as they are

Exit codes: 0 if the log is not broken, 1 if it is, or cannot be read, 2 for wrong usage.

Examples:
  execbus audit show audit.jsonl | less
  execbus audit show --json --kind exec_started audit.jsonl | jq .event.argv
`

const auditGrepUsage = `Usage:
  execbus audit grep [--kind KIND]... [--process N] [--session ID] [--json] PATTERN FILE

Prints the lines of an audit log that a regular expression (RE2) matches. It is compared with what is printed: the lines of "execbus audit
show", or with --json the lines as they are. The flags are those of "execbus audit show".

Exit codes:
  0  lines were found          1  the log is broken, or cannot be read
  3  no line was found         2  wrong usage

Examples:
  execbus audit grep 'git push' audit.jsonl
  execbus audit grep --kind tool_decision refused audit.jsonl
`

// auditVerify runs "audit verify".
func auditVerify(args []string, std streams) int {
	flags := flag.NewFlagSet("audit verify", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "")
	var anchors []messages.AuditHead
	flags.Func("anchor", "", func(text string) error {
		anchor, err := parseAnchor(text)
		anchors = append(anchors, anchor)
		return err
	})
	if code, done := parse(flags, args, auditVerifyUsage, std); done {
		return code
	}
	if flags.NArg() != 1 {
		return misused(std, "name one audit log", auditVerifyUsage)
	}
	file := flags.Arg(0)
	writing := audit.Writing(file) // before it is read: a host that closes it meanwhile has closed it
	report, err := audit.VerifyFile(file, nil, anchors...)
	if err != nil {
		return failed(std, err)
	}
	if *asJSON {
		err = json.NewEncoder(std.out).Encode(struct {
			audit.Report
			Writing bool `json:"writing"`
		}{report, writing})
	} else {
		text := report.String()
		if writing && report.State == audit.NotClosed {
			text += "; a host writes it"
		}
		_, err = fmt.Fprintf(std.out, "%s\nanchor: %v\n", messages.Visible(text), report.Head)
	}
	switch {
	case err != nil:
		return failed(std, err)
	case report.State == audit.Broken:
		return exitFailed
	case report.State == audit.NotClosed:
		return exitNotClosed
	case report.Dropped > 0 || report.Unknown:
		return exitDropped
	}
	return 0
}

func parseAnchor(text string) (messages.AuditHead, error) {
	lines, digest, _ := strings.Cut(text, ":")
	n, err := strconv.ParseInt(lines, 10, 64)
	if err != nil || n < 1 || len(digest) != 64 {
		return messages.AuditHead{}, fmt.Errorf("%q is no anchor; use a number of lines, a colon, and a digest of 64 digits", text)
	}
	return messages.AuditHead{Lines: n, Digest: digest}, nil
}

// auditShow runs "audit show".
func auditShow(args []string, std streams) int {
	return showAudit("audit show", auditShowUsage, args, std, false)
}

// auditGrep runs "audit grep".
func auditGrep(args []string, std streams) int {
	return showAudit("audit grep", auditGrepUsage, args, std, true)
}

// showAudit prints the lines of a log that are wanted.
func showAudit(name, usage string, args []string, std streams, greps bool) int {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	asJSON, process, session := flags.Bool("json", false, ""), flags.Int("process", 0, ""), flags.String("session", "", "")
	var kinds []messages.EventKind
	flags.Func("kind", "", func(kind string) error { kinds = append(kinds, messages.EventKind(kind)); return nil })
	if code, done := parse(flags, args, usage, std); done {
		return code
	}
	rest, pattern := flags.Args(), regexp.MustCompile("")
	if greps {
		if len(rest) != 2 {
			return misused(std, "name a pattern and one audit log", usage)
		}
		var err error
		if pattern, err = regexp.Compile(rest[0]); err != nil {
			return misused(std, err.Error(), usage)
		}
		rest = rest[1:]
	}
	if len(rest) != 1 {
		return misused(std, "name one audit log", usage)
	}
	found := false
	report, err := audit.VerifyFile(rest[0], func(l audit.Line) error {
		if len(kinds) > 0 && !slices.Contains(kinds, l.Kind) || *process != 0 && int(l.Process) != *process || !strings.HasPrefix(string(l.Session), *session) {
			return nil
		}
		text := string(l.Raw)
		if !*asJSON {
			text = describeLine(l)
		}
		if !pattern.MatchString(text) {
			return nil
		}
		found = true
		_, err := io.WriteString(std.out, text+"\n")
		return err
	})
	if err != nil {
		return failed(std, err)
	}
	if report.State == audit.Broken {
		return failed(std, fmt.Errorf("%s is %v", rest[0], report))
	}
	if greps && !found {
		return exitNothing
	}
	return 0
}

// describeLine is a line of a log for a person, in which every character can be seen.
func describeLine(l audit.Line) string {
	at, who := "", "-"
	if !l.At.IsZero() {
		at = l.At.Local().Format("2006-01-02 15:04:05.000")
	}
	if l.Process != 0 {
		who = l.Process.String()
	}
	return messages.Visible(fmt.Sprintf("%6d  %-23s  %-8.8s %-5s  %s", l.N, at, l.Session, who, describeEvent(l)))
}

// ownLine has the fields of lines that are no events as package messages has them.
type ownLine struct {
	audit.Opened
	Dropped audit.Dropped `json:"-"`
	Length  int           `json:"length"`
	Mode    string        `json:"mode"`
	Digest  string        `json:"digest"`
}

func describeEvent(l audit.Line) string {
	var own ownLine
	_ = json.Unmarshal(l.Event, &own) // what cannot be read is shown below
	switch l.Kind {
	case audit.KindOpened:
		text := fmt.Sprintf("run %d begins: pid %d, user %d, on a full disk: %s", own.Run, own.PID, own.UID, own.OnFull)
		if own.Unclosed {
			text += "; the run before was not closed"
		}
		return text
	case audit.KindClosed:
		return "the run ends"
	case audit.KindDropped:
		_ = json.Unmarshal(l.Event, &own.Dropped)
		text := fmt.Sprintf("dropped: %d events from %s to %s", own.Dropped.Events, own.Dropped.From.Format("15:04:05.000"), own.Dropped.To.Format("15:04:05.000"))
		if own.Dropped.Unknown {
			text += ", and others that nobody has counted"
		}
		return text
	case messages.KindTerminalInteraction:
		return strings.TrimSuffix(fmt.Sprintf("input of %d bytes, %s, digest %s", own.Length, own.Mode, own.Digest), ", digest ")
	}
	event, err := messages.UnmarshalEvent(l.Event)
	if err != nil {
		return string(l.Event)
	}
	return describeOf(event, l)
}

// describeOf is what an event says, in a phrase.
func describeOf(event messages.Event, l audit.Line) string {
	switch e := event.(type) {
	case messages.ToolDecision:
		text := "refused"
		if e.Allowed {
			text = "allowed"
		}
		text += " by " + string(e.Source)
		for _, part := range []string{string(e.Decision), e.Rule, e.Reason} {
			if part != "" {
				text += ", " + part
			}
		}
		if e.Unsandboxed {
			text += ", without a sandbox"
		}
		return text + ": " + messages.Display(e.Argv)
	case messages.ExecStarted:
		return "started: " + messages.Display(e.Argv) + " in " + e.Dir + enforcedAs(e.Enforced)
	case messages.AttemptEnded:
		return fmt.Sprintf("attempt %d was stopped%s", e.Attempt, enforcedAs(e.Enforced))
	case messages.ExecEnded:
		return "ended: it " + e.Words()
	case messages.ProcessSignaled:
		if e.Tree {
			return "signal " + e.Signal + " to the tree"
		}
		return "signal " + e.Signal
	case messages.TerminalResized:
		return fmt.Sprintf("size %d columns, %d rows", e.Size.Cols, e.Size.Rows)
	case messages.ApprovalRequested:
		return "asked: " + e.Display + ": " + e.Reason
	case messages.ApprovalResolved:
		if e.Decision == "" {
			return "the question was withdrawn"
		}
		return fmt.Sprintf("answered: %s by %s", e.Decision, e.Source)
	case messages.NetworkConnection:
		c := e.Connection
		text := fmt.Sprintf("connection to %s:%d, sent %d bytes, received %d", c.Host, c.Port, c.Sent, c.Received)
		if !c.Allowed {
			text = fmt.Sprintf("connection to %s:%d refused", c.Host, c.Port)
		}
		for _, part := range []string{c.By, c.Reason} {
			if part != "" {
				text += ", " + part
			}
		}
		return text
	case messages.ProgramExecuted:
		return e.Execution.String()
	case messages.PatchStarted:
		return "patch begins: " + describeChanges(e.Files)
	case messages.PatchApplied:
		return "patch applied: " + describeChanges(e.Files)
	case messages.PatchFailed:
		return "patch failed: " + e.Err.Error() + "; " + describeChanges(e.Files)
	case messages.ExecNotice:
		return "notice: " + e.Text
	case messages.Gap:
		return e.String()
	}
	return string(l.Event)
}

func enforcedAs(e *messages.Enforcement) string {
	if e == nil {
		return ""
	}
	return ", " + e.String()
}

func describeChanges(files []messages.FileChange) string {
	var all []string
	for _, f := range files {
		all = append(all, fmt.Sprintf("%s %s (%s)", f.Kind, f.Path, f.State))
	}
	return strings.Join(all, ", ")
}

// setAuditFull says what happens while the audit log cannot be written.
func setAuditFull(c *config, value string) error {
	c.audit.OnFull = audit.OnFull(value)
	if err := c.audit.OnFull.Check(); err != nil || value == "" {
		return errors.New("use stop or drop")
	}
	return nil
}
