package house

import (
	"slices"
	"strings"
	"testing"
)

// Each import of the warden can delay its initialisation, and packages of a host that are ready earlier are initialised in
// every warden. Each of these three packages imports hundreds.
func TestTheWardenImportsNextToNothing(t *testing.T) {
	command := goTool(t, "list", "-deps", "./sandbox/internal/warden")
	command.Env = append(command.Env, "GOOS=linux")
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	imported := strings.Fields(string(out))
	for _, heavy := range []string{"net", "fmt", "encoding/json", "crypto/rand", "log/slog"} {
		if slices.Contains(imported, heavy) {
			t.Errorf("the warden imports %s", heavy)
		}
	}
}
