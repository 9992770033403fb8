package mcp

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/execbus/execbus"
)

var update = flag.Bool("update", false, "write down what the server says now")

// changing matches the parts that differ each time: names of answers, times, directories and kernel pids.
var changing = []struct {
	pattern *regexp.Regexp
	same    string
}{
	{regexp.MustCompile(`Chunk ID: [0-9a-f]{6}`), "Chunk ID: <id>"},
	{regexp.MustCompile(`"chunk_id":"[0-9a-f]{6}"`), `"chunk_id":"<id>"`},
	{regexp.MustCompile(`Wall time: \d+\.\d{4} seconds`), "Wall time: <time> seconds"},
	{regexp.MustCompile(`"wall_time_seconds":[0-9.e-]+`), `"wall_time_seconds":<time>`},
	{regexp.MustCompile(`"began":"[^"]+"`), `"began":"<time>"`},
	{regexp.MustCompile(`"pid":\d+`), `"pid":<pid>`},
}

// stateOf matches the state that a question has in the protocol without sessions.
var stateOf = regexp.MustCompile(`"requestState":"([^"]+)"`)

// A conversation is a file. Lines that begin with "> " are sent, and those with "< " are the server's answers. A line that
// has an id is answered before the next one is sent.
func TestConversationsReplay(t *testing.T) {
	t.Setenv("PATH", "/usr/bin:/bin") // the answers that a person is offered depend on who owns its directories
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { replay(t, file) })
	}
}

func replay(t *testing.T, file string) {
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := dial(t, Options{Session: execbus.SessionOptions{Dir: "/", DeterministicIDs: true}, Version: "test"})
	var now strings.Builder
	state := "" // of the last question, which nobody can guess
	for line := range strings.Lines(string(content)) {
		request, sent := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "> ")
		if !sent {
			if !strings.HasPrefix(line, "< ") {
				now.WriteString(line) // a comment
			}
			continue
		}
		now.WriteString(line)
		p.send("%s", strings.ReplaceAll(request, "<state>", state))
		if !strings.Contains(request, `"id":`) && strings.Contains(request, `"method":"notifications/`) {
			continue
		}
		answer := p.line()
		for strings.Contains(answer, "notifications/resources/list_changed") { // it may come at any time
			answer = p.line()
		}
		if asked := stateOf.FindStringSubmatch(answer); asked != nil {
			state = asked[1]
			answer = strings.ReplaceAll(answer, state, "<state>")
		}
		for _, c := range changing {
			answer = c.pattern.ReplaceAllString(answer, c.same)
		}
		now.WriteString("< " + answer + "\n")
	}
	if *update {
		if err := os.WriteFile(file, []byte(now.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	was := strings.Split(string(content), "\n")
	for i, line := range strings.Split(now.String(), "\n") {
		if i >= len(was) || was[i] != line {
			t.Fatalf("line %d is now\n%s", i+1, line)
		}
	}
}
