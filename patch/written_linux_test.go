package patch_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/execbus/execbus/patch"
	"github.com/execbus/execbus/patch/writer"
	"github.com/execbus/execbus/tests/patchcases"
)

// The program that reads and writes files of patches does what was observed.
func TestTheWriterDoesWhatPlansSay(t *testing.T) {
	conversation := converse(t)
	journal, err := writer.OpenJournal(filepath.Join(t.TempDir(), "patches"))
	if err != nil {
		t.Fatal(err)
	}
	patchcases.Try(t, func(t *testing.T, dir, text string) (exit int, stdout, stderr string) {
		plan, err := written(t, conversation, journal, dir, text)
		if err != nil {
			return 1, "", err.Error()
		}
		return 0, plan.Summary(), ""
	})
}

// written applies a patch by the program.
func written(t *testing.T, conversation *writer.Conversation, journal *writer.Journal, dir, text string) (*patch.Plan, error) {
	t.Helper()
	p, err := patch.Parse(text)
	if err != nil {
		return nil, err
	}
	looked, err := conversation.Read(p.Paths(dir))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := p.Plan(dir, looked.Files)
	if err != nil {
		return nil, err
	}
	_, err = conversation.Write(t.Context(), writer.Job{Plan: plan, Looked: looked, Journal: journal})
	return plan, err
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
