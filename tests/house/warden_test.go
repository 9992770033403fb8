package house

import (
	"slices"
	"strings"
	"testing"
)

// Each import of the warden can delay its initialisation, and packages of a host that are ready earlier are initialised in
// every warden. Most of these packages import hundreds. Path/filepath imports few, but it comes so late in the order of
// names that all of protobuf would come first: a fifth of the time that a warden takes to start.
func TestTheWardenImportsNextToNothing(t *testing.T) {
	command := goTool(t, "list", "-deps", "./sandbox/internal/warden")
	command.Env = append(command.Env, "GOOS=linux")
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	imported := strings.Fields(string(out))
	for _, heavy := range []string{"net", "fmt", "path/filepath", "encoding/json", "crypto/rand", "log/slog"} {
		if slices.Contains(imported, heavy) {
			t.Errorf("the warden imports %s", heavy)
		}
	}
}
