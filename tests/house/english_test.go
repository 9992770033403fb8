package house

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
)

// turns are turns of a sentence that a reader has to take twice: the subject comes first, and is a noun.
var turns = []struct {
	pattern *regexp.Regexp
	why     string
}{
	{regexp.MustCompile(`(?i)\bwho` + `ever\b`), `name the subject: "a process that", "the caller that"`},
	{regexp.MustCompile(`(?:// |^|[.;] )Who [a-z][^?]*$`), `a sentence begins with its subject: "a process that", "a caller that"`},
	{regexp.MustCompile(`waits? for who\b`), `name what is waited for`},
}

// checkEnglish looks for them in comments, literals and pages.
func checkEnglish(repository fs.FS) ([]string, error) {
	files, err := textFiles(repository)
	if err != nil {
		return nil, err
	}
	var complaints []string
	for _, file := range files {
		if extension := path.Ext(file.name); extension != ".go" && extension != ".md" {
			continue
		}
		for i, line := range strings.Split(file.text, "\n") {
			for _, turn := range turns {
				if found := turn.pattern.FindString(line); found != "" {
					complaints = append(complaints, fmt.Sprintf("%s:%d: %q: %s", file.name, i+1, found, turn.why))
				}
			}
		}
	}
	return complaints, nil
}

func TestSentencesBeginWithTheirSubjects(t *testing.T) { passes(t, checkEnglish) }

func TestCrookedSentencesAreFound(t *testing.T) {
	finds(t, checkEnglish, map[string]string{
		"a/a.go": "package a\n// It tells who" + "ever asks.\n// Who" + " is told? Nobody.\n//  Who may come.\n// Who" + " comes first, wins.\n",
		"b.md":   "It waits f" + "or who holds it.\nWho" + " waits loses.\n",
		"c.txt":  "who" + "ever\n",
	}, "a/a.go:2", "a/a.go:5", "b.md:1", "b.md:2")
}
