package writer_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/patch"
	"github.com/execbus/execbus/patch/writer"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// patience bounds what only a defect makes a test wait for.
const patience = time.Minute

// process is a program as a stream.
type process struct {
	child  ptyio.Child
	output *io.PipeReader
	ended  chan struct{}
}

// begin starts the program; without an enclosure nothing confines it.
func begin(ctx context.Context, spawner ptyio.Spawner, enclosure ptyio.Enclosure) (*process, error) {
	launch, err := writer.Launch()
	if err != nil {
		return nil, err
	}
	read, write := io.Pipe()
	p := &process{output: read, ended: make(chan struct{})}
	outputs := make(chan ptyio.Output, ptyio.Credits+1)
	go func() {
		for o := range outputs {
			if o.Stream == messages.StreamStdout {
				_, _ = write.Write(o.Bytes)
			} else {
				fmt.Fprintf(os.Stderr, "%s", o.Bytes)
			}
			o.Release()
		}
		_ = write.Close()
	}()
	launch.Sandbox = enclosure
	launch.Events = func(event ptyio.Event) {
		switch e := event.(type) {
		case ptyio.Output:
			outputs <- e
		case ptyio.Closed:
			close(outputs)
		case ptyio.TreeEnded:
			close(p.ended)
		}
	}
	if p.child, err = spawner.Spawn(ctx, launch); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) Read(buffer []byte) (int, error) { return p.output.Read(buffer) }

func (p *process) Write(input []byte) (int, error) {
	for at := 0; at < len(input); at += 64 << 10 {
		done := make(chan error, 1)
		p.child.Write(input[at:min(at+64<<10, len(input))], time.Time{}, func(_ ptyio.Taken, err error) { done <- err })
		if err := <-done; err != nil {
			return at, err
		}
	}
	return len(input), nil
}

func (p *process) Close() error {
	_ = p.output.Close()
	p.child.CloseStdin(func(error) {})
	<-p.ended
	return nil
}

// machine is what the tests run on, at one level.
type machine struct {
	spawner   ptyio.Spawner
	enclosure ptyio.Enclosure // nil for none
}

// work makes a directory that others may pass, so that every user's tests can use it.
func work(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// policy is workspace-write in a directory alone.
func policy() messages.SandboxPolicy {
	return messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, ExcludeSlashTmp: true, ExcludeTmpdirEnvVar: true}
}

// levels calls a test without a sandbox and at both levels.
func levels(t *testing.T, policy messages.SandboxPolicy, test func(t *testing.T, dir string, m machine)) {
	for _, level := range []messages.Assurance{messages.AssuranceNone, messages.AssuranceConfined, messages.AssuranceIsolated} {
		t.Run(string(level), func(t *testing.T) {
			dir := work(t)
			test(t, dir, at(t, level, policy, dir))
		})
	}
}

// spawners are those with namespaces and without. All tests share them: to end one takes a second under the race detector.
var spawners = map[bool]func() (ptyio.Spawner, error){true: spawner(true), false: spawner(false)}

func spawner(namespaces bool) func() (ptyio.Spawner, error) {
	return sync.OnceValues(func() (ptyio.Spawner, error) { return sandbox.New(sandbox.Options{WithoutNamespaces: !namespaces}) })
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, made := range spawners {
		if spawner, err := made(); err == nil {
			_ = spawner.Close()
		}
	}
	os.Exit(code)
}

func at(t testing.TB, level messages.Assurance, policy messages.SandboxPolicy, dir string) machine {
	t.Helper()
	spawner, err := spawners[level == messages.AssuranceIsolated]()
	if err != nil {
		t.Fatal(err)
	}
	m := machine{spawner: spawner}
	if level == messages.AssuranceNone {
		return m
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m.enclosure, err = spawner.Enclose(ctx, ptyio.Confinement{Policy: policy, Dir: dir, Least: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.enclosure.Release)
	can, err := spawner.Can(ptyio.Launch{Argv: []string{"true"}, Dir: "/", Sandbox: m.enclosure})
	if err != nil {
		t.Skipf("this machine cannot do %s: %v", level, err)
	}
	if can.Level != level {
		t.Skipf("this machine gives %s", can.Level)
	}
	return m
}

func (m machine) begin(t testing.TB) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, err := begin(ctx, m.spawner, m.enclosure)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// look reads paths by a program of its own.
func (m machine) look(t testing.TB, paths ...string) *writer.Looked {
	t.Helper()
	p := m.begin(t)
	defer p.Close()
	looked, err := writer.New(p).Read(paths)
	if err != nil {
		t.Fatal(err)
	}
	return looked
}

// write does a plan by a program of its own.
func (m machine) write(t testing.TB, journal *writer.Journal, looked *writer.Looked, protected []string, changes ...patch.Change) ([]writer.Result, error) {
	t.Helper()
	p := m.begin(t)
	defer p.Close()
	return writer.New(p).Write(t.Context(), writer.Job{Plan: &patch.Plan{Changes: changes}, Looked: looked, Journal: journal,
		Policy: json.RawMessage(`{}`), Protected: protected})
}

// apply reads what the changes concern, and does them.
func (m machine) apply(t testing.TB, changes ...patch.Change) ([]writer.Result, error) {
	t.Helper()
	return m.write(t, journal(t), m.look(t, paths(changes)...), nil, changes...)
}

func paths(changes []patch.Change) (all []string) {
	for _, c := range changes {
		all = append(all, cmp.Or(c.Named, c.Path))
	}
	return all
}

func journal(t testing.TB) *writer.Journal {
	t.Helper()
	j, err := writer.OpenJournal(filepath.Join(work(t), "patches"))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func add(path, text string) patch.Change {
	return patch.Change{Path: path, New: &patch.Content{Data: []byte(text), Created: true}}
}

func update(path, old, text string) patch.Change {
	return patch.Change{Path: path, Old: &patch.Content{Data: []byte(old), Mode: 0o644}, New: &patch.Content{Data: []byte(text), Mode: 0o644}}
}

func remove(path, old string) patch.Change {
	return patch.Change{Path: path, Old: &patch.Content{Data: []byte(old), Mode: 0o644}}
}

func put(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tree is everything below a directory: contents of files, texts of links, "/" for directories.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		switch {
		case err != nil || path == dir:
			return err
		case d.IsDir():
			all[name] = "/"
		case d.Type()&fs.ModeSymlink != 0:
			all[name], err = os.Readlink(path)
			all[name] = "-> " + all[name]
		case d.Type().IsRegular():
			var data []byte
			data, err = os.ReadFile(path)
			all[name] = string(data)
		default:
			all[name] = d.Type().String()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// same compares a tree with what it should be.
func same(t testing.TB, dir string, want map[string]string) {
	t.Helper()
	if got := tree(t, dir); !maps.Equal(got, want) {
		t.Errorf("the tree is %q, want %q", got, want)
	}
}

func fails(t testing.TB, err error, with string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), with) {
		t.Errorf("the error is %v, want one with %q", err, with)
	}
}
