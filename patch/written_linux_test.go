package patch_test

import (
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/execbus/execbus/patch"
	"github.com/execbus/execbus/patch/writer"
)

// The program that reads and writes files of patches does what the simple code of these tests does, in every observed case.
func TestTheWriterDoesWhatPlansSay(t *testing.T) {
	umask := syscall.Umask(0o022)
	t.Cleanup(func() { syscall.Umask(umask) })
	conversation := converse(t)
	journal, err := writer.OpenJournal(filepath.Join(t.TempDir(), "patches"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases(t) {
		t.Run(c.Name, func(t *testing.T) {
			simple, ours := scene(t, c), scene(t, c)
			text := string(c.Patch)
			wanted, want := planned(filepath.Join(simple, c.Cwd), strings.ReplaceAll(text, "$DIR", simple))
			if want == nil {
				want = apply(wanted)
			}
			got := written(t, conversation, journal, filepath.Join(ours, c.Cwd), strings.ReplaceAll(text, "$DIR", ours))
			if (got == nil) != (want == nil) {
				t.Errorf("the error is %v, want %v", got, want)
			}
			if want != nil && wanted != nil { // the simple code stops in the midst
				return
			}
			if is, should := listed(t, ours), listed(t, simple); !maps.Equal(is, should) {
				t.Errorf("the tree is\n%q, want\n%q", is, should)
			}
		})
	}
}

func scene(t *testing.T, c observed) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	build(t, dir, c)
	return dir
}

// written applies a patch by the program.
func written(t *testing.T, conversation *writer.Conversation, journal *writer.Journal, dir, text string) error {
	t.Helper()
	p, err := patch.Parse(text)
	if err != nil {
		return err
	}
	looked, err := conversation.Read(p.Paths(dir))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := p.Plan(dir, looked.Files)
	if err != nil {
		return err
	}
	_, err = conversation.Write(t.Context(), writer.Job{Plan: plan, Looked: looked, Journal: journal})
	return err
}

// converse starts the program without a sandbox.
func converse(t *testing.T) *writer.Conversation {
	t.Helper()
	launch, err := writer.Launch()
	if err != nil {
		t.Fatal(err)
	}
	command := &exec.Cmd{Path: launch.Argv[0], Args: []string{launch.Argv0}, Env: launch.Env, Dir: launch.Dir, Stderr: os.Stderr}
	for _, in := range launch.Inherit { // in the order of their numbers, from 3 on
		command.ExtraFiles = append(command.ExtraFiles, in.File)
	}
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		if err := command.Wait(); err != nil {
			t.Error(err)
		}
	})
	return writer.New(struct {
		io.Reader
		io.Writer
	}{output, input})
}

// listed is everything below a directory, with the modes.
func listed(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		switch {
		case d.Type().IsRegular():
			var data []byte
			data, err = os.ReadFile(path)
			text = string(data)
		case d.Type()&fs.ModeSymlink != 0:
			text, err = os.Readlink(path)
		}
		name, _ := filepath.Rel(dir, path)
		all[name] = info.Mode().String() + " " + text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
