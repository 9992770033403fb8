//go:build linux

package sandbox_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
)

func TestAPolicyOutlivesThePlaceholdersOfAnother(t *testing.T) {
	dir := t.TempDir()
	spawner, first := isolating(t, workspace(dir))
	if got := said(t, spawner, first, false, "echo fine"); got != "fine" {
		t.Fatal(got)
	}
	second := enclose(t, spawner, workspace(dir)) // while the placeholders are there
	first.Release()
	eventually(t, "the placeholders are gone", func() bool { return !exists(filepath.Join(dir, ".git")) })
	if got := said(t, spawner, second, false, "mkdir "+dir+"/.git 2>/dev/null || echo safe"); got != "safe" {
		t.Error(got)
	}
}

func TestSocketsOfOthersStay(t *testing.T) {
	dir := t.TempDir()
	c := workspace(dir)
	denied, protected := filepath.Join(dir, "agent"), filepath.Join(dir, "named")
	c.Policy.DeniedReads, c.Policy.ProtectedNames = []string{denied}, []string{"named"}
	for _, path := range []string{denied, protected} {
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
	}
	spawner, e := isolating(t, c)
	if got := said(t, spawner, e, false, "echo fine"); got != "fine" {
		t.Fatal(got)
	}
	e.Release()
	eventually(t, "the placeholders are gone", func() bool { return !exists(filepath.Join(dir, ".git")) })
	if !exists(denied) || !exists(protected) {
		t.Error("somebody's socket was removed")
	}
}

func TestRepositoriesComeAndGoWhileASessionLives(t *testing.T) {
	dir := t.TempDir()
	nested, top := filepath.Join(dir, "x", ".git"), filepath.Join(dir, ".git")
	script := "cd " + dir + "; for at in .git x/.git; do touch $at/new 2>/dev/null && echo $at; mkdir $at 2>/dev/null && echo made $at; done; echo over"
	spawner, e := isolating(t, workspace(dir))
	expect := func(when, want string) {
		t.Helper()
		if got := strings.Join(strings.Fields(said(t, spawner, e, false, script)), " "); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(nested, 0o755))
	e.Release()
	e = enclose(t, spawner, workspace(dir))
	expect("at first", "over")
	must(os.RemoveAll(top))
	expect("after somebody has removed the placeholder", "over")
	must(os.RemoveAll(top))
	must(os.Mkdir(top, 0o755))
	expect("with a repository", "over")
	must(os.Rename(nested, nested+"-old"))
	must(os.Mkdir(nested, 0o755))
	expect("with another nested one", "over")
	must(os.RemoveAll(filepath.Dir(nested)))
	expect("without the nested one", "over")
	e.Release()
	eventually(t, "the placeholders are gone", func() bool { return !exists(filepath.Join(dir, ".agents")) })
	if !exists(top) {
		t.Error("the repository was removed")
	}
}

func TestWhatMustNotBeReadMayComeToExistLater(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "credentials")
	c := workspace(t.TempDir())
	c.Policy.DeniedReads = []string{secret}
	spawner, e := isolating(t, c)
	if got := said(t, spawner, e, false, "echo fine"); got != "fine" {
		t.Fatal(got)
	}
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := launch(false, "cat", secret)
	l.Sandbox, l.Events = e, newRecorder().receive
	if _, err := spawner.Spawn(t.Context(), l); !errors.Is(err, messages.ErrInvalidRequest) {
		t.Errorf("%v", err)
	}
	again := enclose(t, spawner, c)
	if got := said(t, spawner, again, false, "cat "+secret); strings.Contains(got, "secret\n") || !strings.Contains(got, "denied") {
		t.Error(got)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
