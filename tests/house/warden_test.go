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
	importsNone(t, "./sandbox/internal/warden", "net", "fmt", "path/filepath", "encoding/json", "crypto/rand", "log/slog")
}

// The same holds for the program that reads and writes the files of a patch, but it needs the packages that come early in that order.
func TestTheWriterOfPatchesImportsLittle(t *testing.T) {
	importsNone(t, "./patch/writer/internal/child", "net", "path/filepath", "crypto/rand", "log/slog", "os/signal")
}

func importsNone(t *testing.T, importer string, heavy ...string) {
	t.Helper()
	command := goTool(t, "list", "-deps", importer)
	command.Env = append(command.Env, "GOOS=linux")
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	imported := strings.Fields(string(out))
	if len(imported) == 0 {
		t.Error("nothing is imported")
	}
	for _, name := range heavy {
		if slices.Contains(imported, name) {
			t.Errorf("%s imports %s", importer, name)
		}
	}
}
