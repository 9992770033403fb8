package execbus

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/execbus/execbus/actors"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/patch/writer"
	"github.com/execbus/execbus/ptyio"
)

// deaf is a program whose answers do not come any more once it was told to put the files in place.
type deaf struct {
	io.Reader
	io.Writer
	committed bool
}

func (d *deaf) Write(input []byte) (int, error) {
	d.committed = d.committed || strings.Contains(string(input), `"Commit":true`)
	return d.Writer.Write(input)
}

func (d *deaf) Read(buffer []byte) (int, error) {
	if d.committed {
		return 0, io.EOF
	}
	return d.Reader.Read(buffer)
}

func TestFilesOfAPatchThatCannotBeSettledAreUncertain(t *testing.T) {
	launch, err := writer.Launch()
	if err != nil {
		t.Skip(err)
	}
	command := &exec.Cmd{Path: launch.Argv[0], Args: []string{launch.Argv0}, Env: launch.Env, Dir: "/", Stderr: os.Stderr}
	for _, in := range launch.Inherit {
		command.ExtraFiles = append(command.ExtraFiles, in.File)
	}
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer command.Wait()
	defer stdin.Close()
	p, program := &patches{t.TempDir() + "/patches"}, &deaf{Reader: stdout, Writer: stdin}
	one, err := p.Parse(messages.ApplyPatch{Text: "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := one.Read(program, nil, nil); err != nil {
		t.Fatal(err)
	}
	none := func(context.Context, ptyio.Confinement) (io.ReadWriteCloser, error) {
		return nil, errors.New("there is none")
	}
	files, err := one.Write(t.Context(), nil, program, actors.PatchJob{}, none)
	if err == nil || len(files) != 1 || files[0].State != messages.StateUncertain || files[0].Detail == "" {
		t.Errorf("%+v, %v", files, err)
	}
	if texts, err := p.Recover(t.Context(), nil, none); err == nil || len(texts) > 0 {
		t.Errorf("%q, %v", texts, err)
	}
}
