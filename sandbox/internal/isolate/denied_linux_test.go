package isolate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execbus/execbus/sandbox/internal/confine"
)

// Exceptions inside a denied directory can be read or written. Nothing else in it can even be listed.
func TestExceptionsInsideOfWhatMustNotBeRead(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"key": "hidden", "open/key": "open", "open/shut/key": "shut", "deep/er/file": "deep", "deep/secret": "hidden", "work/old": "work"} {
		path := filepath.Join(dir, "secret", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(dir, "secret")
	plan := &confine.Plan{Rules: []confine.Rule{rule(t, secret, confine.Nothing), rule(t, secret+"/open", confine.Read), rule(t, secret+"/work", confine.Write),
		rule(t, secret+"/open/shut", confine.Nothing), rule(t, secret+"/deep/er/file", confine.Read)}}
	output, _ := run(t, plan, `cd `+secret+`
can() { "$@" 2>/dev/null && echo || echo "no: $*"; }
can cat open/key; can cat deep/er/file; can cat work/old; echo new >work/new && can cat work/new
can cat key; can cat deep/secret; can cat open/shut/key; can ls . ; can ls deep; can ls deep/er
can touch open/key; can touch deep/er/file; can touch x; can chmod 755 .; can chmod 755 deep; can rm deep/er/file`)
	want := "open\ndeep\nwork\nnew\n\nno: cat key\nno: cat deep/secret\nno: cat open/shut/key\nno: ls .\nno: ls deep\nno: ls deep/er\n" +
		"no: touch open/key\nno: touch deep/er/file\nno: touch x\nno: chmod 755 .\nno: chmod 755 deep\nno: rm deep/er/file\n"
	if strings.TrimSpace(output) != strings.TrimSpace(want) {
		t.Errorf("%s", output)
	}
	if text, err := os.ReadFile(secret + "/work/new"); err != nil || string(text) != "new\n" {
		t.Errorf("outside: %q, %v", text, err)
	}
}
