package messages

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// Bounds of what a question's text says.
const (
	maxFact      = 2000 // characters of one fact
	maxVariables = 20
)

// Text is what a person has to know to answer, one fact a line and the most important first. Nothing is hidden in it: characters
// that cannot be seen, or that move or cover others, are escaped. The command is said once. A fact of more than 2000 characters
// is cut in the middle, where its length stands. The choices are not part of it.
func (q *Question) Text() string { return q.text(maxFact, maxVariables) }

// WholeText is Text with nothing cut.
func (q *Question) WholeText() string { return q.text(math.MaxInt, math.MaxInt) }

func (q *Question) text(most, variables int) string {
	var b strings.Builder
	line := func(format string, values ...any) {
		b.WriteString(CutMiddle(fmt.Sprintf(format, values...), most) + "\n")
	}
	switch {
	case q.Patch != nil:
		q.Patch.write(&b, line)
	case q.Host != nil:
		q.Host.write(line)
	case q.Execution != nil:
		q.Execution.write(line)
	case q.Retry:
		line("The sandbox stopped this command. Run it again without a sandbox?")
	default:
		line("Run this command?")
	}
	if q.Patch == nil && q.Host == nil && q.Execution == nil {
		b.WriteString("\n")
		line("%s", q.Display)
	}
	b.WriteString("\n")
	if q.Unsandboxed {
		line("It would run without a sandbox.")
	}
	if q.Unseen {
		line("Its executions are not seen then: rules cannot hold for the programs that it executes.")
	}
	if !q.Additional.Empty() {
		line("Its sandbox would be wider: %s", Visible(q.Additional.String()))
	}
	for _, path := range q.Leads {
		line("%s", path)
	}
	if q.Host != nil {
		q.Host.facts(line)
	}
	if q.Execution != nil {
		q.Execution.facts(line)
	}
	line("Directory: %s", Visible(q.Dir))
	if q.Program != "" {
		line("Program: %s", Visible(q.Program))
	}
	if q.Reason != "" {
		line("Reason: %s", q.Reason)
	}
	if q.OpenInput {
		line("Its input stays open: there will be no question about later input.")
	}
	for _, variable := range q.Environment[:min(len(q.Environment), variables)] {
		line("Sets: %s", variable)
	}
	if more := len(q.Environment) - variables; more > 0 {
		line("It sets %d more variables.", more)
	}
	q.writeSegments(line)
	return strings.TrimRight(b.String(), "\n")
}

// write says what a patch changes, and shows how.
func (p *PatchQuestion) write(b *strings.Builder, line func(string, ...any)) {
	line("Apply this patch?")
	b.WriteString("\n")
	for _, file := range p.Files {
		line("%s", file.Display())
	}
	if p.MoreFiles > 0 {
		line("It changes %d more files.", p.MoreFiles)
	}
	b.WriteString("\n" + strings.TrimRight(p.Diff, "\n") + "\n")
}

// write says which host it is about.
func (q *HostQuestion) write(line func(string, ...any)) {
	line("Let a running command talk to this host?\n\n%s", q)
}

// facts say who asks, what may go wrong, and what the rule would be.
func (q *HostQuestion) facts(line func(string, ...any)) {
	if q.Looks != "" {
		line("Careful, this host name is not what it looks like: %s", q.Looks)
	}
	switch q.Protocol {
	case HostHTTP:
		line("It is plain text: anyone on the way can read it, and change the answer.")
	case HostTCP:
		line("It is a bare connection: nobody checks what goes over it.")
	}
	switch {
	case q.Process == 0 && q.Command == "":
		line("The connection does not say which of the session's commands it belongs to.")
	case q.Process == 0:
		line("The connection does not say which command it belongs to. Only this one runs: %s", q.Command)
	default:
		line("Command: %s (process %d)", q.Command, q.Process)
	}
	if q.Rule != nil {
		line("A rule would be: %s", q.Rule)
	}
}

// Display is a change in one line for a person's eyes: "update /etc/hosts (+1 -2)".
func (f *FileChange) Display() string {
	text := string(f.Kind) + " " + Visible(f.Path)
	if f.From != "" {
		text = fmt.Sprintf("%s %s to %s", f.Kind, Visible(f.From), Visible(f.Path))
	}
	if f.Named != "" {
		text += ", which the patch calls " + Visible(f.Named)
	}
	if f.Overwrites {
		text += ", where another file is overwritten"
	}
	return fmt.Sprintf("%s (+%d -%d)", text, f.Added, f.Removed)
}

// writeSegments says which of several commands are asked about, unless all are for the same reason.
func (q *Question) writeSegments(line func(string, ...any)) {
	differ := q.MoreSegments > 0
	for _, segment := range q.Segments {
		differ = differ || segment.Why != q.Segments[0].Why
	}
	if n := len(q.Segments) + q.MoreSegments; n > 1 {
		line("It runs %d commands.", n)
	}
	for _, segment := range q.Segments {
		switch {
		case !differ || segment.Why == "":
		case strings.Contains(q.Reason, segment.Why):
			line("This is about: %s", segment.Display)
		default:
			line("Also asked about: %s (%s)", segment.Display, segment.Why)
		}
		for _, host := range segment.Hosts {
			line("Careful, this host name is not what it looks like: %s", host)
		}
	}
}

// CutMiddle is a text of at most so many characters, beside a mark in place of its middle that says how long it was.
func CutMiddle(text string, most int) string {
	n := utf8.RuneCountInString(text)
	if n <= most {
		return text
	}
	runes := []rune(text)
	return fmt.Sprintf("%s [… of %d characters %d are not shown …] %s", string(runes[:(most+1)/2]), n, n-most, string(runes[n-most/2:]))
}

// String is what the answer does, with what would be remembered.
func (c Choice) String() string {
	if c.Remembers == "" {
		return c.Sentence
	}
	return strings.TrimSuffix(c.Sentence, ".") + ": " + c.Remembers
}
