package house

import (
	"debug/elf"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The README says how to make a static binary: one that no dynamic loader has to start.
func TestTheProgramIsOneStaticBinary(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("static binaries are for Linux")
	}
	root := repositoryRoot(t)
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "`CGO_ENABLED=0 go build ./cmd/execbus` makes one static binary") {
		t.Error("the README does not say how to make a static binary")
	}
	path := filepath.Join(t.TempDir(), "execbus")
	build := goTool(t, "build", "-o", path, "./cmd/execbus")
	build.Dir, build.Env = root, append(build.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	binary, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	for _, part := range binary.Progs {
		if part.Type == elf.PT_INTERP {
			t.Error("the binary needs a dynamic loader")
		}
	}
}
