package messages

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Text is what a person has to know to answer, one fact a line and nothing hidden: characters that cannot be seen are escaped.
// The choices are not part of it.
func (q *Question) Text() string {
	var b strings.Builder
	line := func(format string, values ...any) { fmt.Fprintf(&b, format+"\n", values...) }
	if q.Retry {
		line("The sandbox stopped this command. Run it again without a sandbox?")
	} else {
		line("Run this command?")
	}
	line("\n%s\n", q.Display)
	line("Directory: %s", seen(q.Dir))
	if q.Program != "" {
		line("Program: %s", seen(q.Program))
	}
	if q.Reason != "" {
		line("Reason: %s", q.Reason)
	}
	for _, variable := range q.Environment {
		line("Sets: %s", variable)
	}
	q.writeSegments(line)
	if !q.Additional.Empty() {
		line("Its sandbox would be wider: %s", seen(q.Additional.String()))
	}
	if q.Unsandboxed {
		line("It would run without a sandbox.")
	}
	if q.OpenInput {
		line("Its input stays open: there will be no question about later input.")
	}
	return strings.TrimRight(b.String(), "\n")
}

func (q *Question) writeSegments(line func(string, ...any)) {
	for _, segment := range q.Segments {
		if len(q.Segments) > 1 || segment.Why != "" {
			why := ""
			if segment.Why != "" {
				why = " (" + segment.Why + ")"
			}
			line("It runs: %s%s", segment.Display, why)
		}
		for _, host := range segment.Hosts {
			line("Careful, this host name is not what it looks like: %s", host)
		}
	}
	if q.MoreSegments > 0 {
		line("It runs %d more commands.", q.MoreSegments)
	}
}

// String is what the answer does, with what would be remembered.
func (c Choice) String() string {
	if c.Remembers == "" {
		return c.Sentence
	}
	return strings.TrimSuffix(c.Sentence, ".") + ": " + c.Remembers
}

// seen quotes a text that has characters which cannot be seen.
func seen(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return strconv.QuoteToASCII(text)
	}
	return text
}
