package denial

import (
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
)

// A command that goes somewhere often is no more work than one that goes there once: nothing is looked at twice.
func TestACommandThatGoesSomewhereOftenIsBounded(t *testing.T) {
	f := Facts{Status: messages.StatusExited(1), Output: []byte("bash: line 1: config: Permission denied\n"), Dir: "/w",
		Command: []string{"bash", "-c", strings.Repeat("cd /w/.git; cd '/w/.git/'; ", 100) + "cd /w/.git/hooks; echo >config"},
		Rules:   Rules{Write: []string{"/w"}, Protected: []string{".git"}}}
	f.look()
	if all := f.moved([]named{{path: "/w/config", relative: true}}); len(all) != 3 {
		t.Fatalf("%d paths: %v", len(all), all)
	}
	if d := Of(f); d == nil || d.Path != "/w/.git/config" || !d.FromText {
		t.Errorf("%v", d)
	}
	f.Command[2] = ""
	for i := range 100 {
		f.Command[2] += "cd /etc/" + strings.Repeat("d", i) + ";"
	}
	f.Command[2] += strings.Repeat(" ", 10*maxCommand)
	f.text, f.moves = "", nil
	f.look()
	if len(f.moves) != maxMoves || len(f.text) != maxCommand {
		t.Errorf("%d directories, %d bytes", len(f.moves), len(f.text))
	}
}
