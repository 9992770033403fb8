package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	door "github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// The program becomes the warden of another one, and says where it is.
func TestTheProgramIsAWarden(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("wardens are for Linux")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("skipped: ", err)
	}
	binary := filepath.Join(t.TempDir(), "execbus")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(binary, "warden").Output()
	if path := strings.TrimSpace(string(out)); err != nil || path != binary {
		t.Fatalf("it is in %q: %v; want %q", path, err, binary)
	}
	rt, err := door.Start(door.Options{Warden: binary})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rt.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	session, err := rt.OpenSession(door.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	result, err := session.Exec(t.Context(), messages.ExecCommand{Argv: []string{"sh", "-c", "echo $PPID"}})
	if err != nil {
		t.Fatal(err)
	}
	parent, err := strconv.Atoi(strings.TrimSpace(string(result.Output)))
	if err != nil {
		t.Fatal(err)
	}
	if program, err := os.Readlink("/proc/" + strconv.Itoa(parent) + "/exe"); err != nil || program != binary {
		t.Errorf("the parent of the command is %q, %v; want %q", program, err, binary)
	}
}
