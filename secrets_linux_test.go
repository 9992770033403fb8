package execbus_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	notraces "go.opentelemetry.io/otel/trace/noop"

	"github.com/google/uuid"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/record"
)

// pile collects texts in which something may be found later. Log and spans write to it from goroutines of the runtime.
type pile struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (p *pile) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.Write(text)
}

// has looks for a text as it is, and as it is inside of base64, where it may begin at three places.
func (p *pile) has(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return holds(p.all.Bytes(), text)
}

func holds(all []byte, text string) bool {
	found := bytes.Contains(all, []byte(text))
	for skip := range 3 {
		encoded := base64.StdEncoding.EncodeToString(append(make([]byte, skip), text...))
		found = found || bytes.Contains(all, []byte(strings.TrimRight(encoded, "=")[4:len(encoded)-4]))
	}
	return found
}

// noted is a tracer that keeps what spans say.
type noted struct {
	notraces.TracerProvider
	to *pile
}

type notedTracer struct {
	notraces.Tracer
	to *pile
}

type notedSpan struct {
	notraces.Span
	to *pile
}

func (n noted) Tracer(string, ...trace.TracerOption) trace.Tracer { return notedTracer{to: n.to} }

func (n notedTracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	config := trace.NewSpanStartConfig(options...)
	fmt.Fprintln(n.to, "span", name, config.Attributes())
	return ctx, notedSpan{to: n.to}
}

func (n notedSpan) IsRecording() bool                             { return true }
func (n notedSpan) SetAttributes(a ...attribute.KeyValue)         { fmt.Fprintln(n.to, a) }
func (n notedSpan) AddEvent(name string, _ ...trace.EventOption)  { fmt.Fprintln(n.to, name) }
func (n notedSpan) RecordError(err error, _ ...trace.EventOption) { fmt.Fprintln(n.to, err) }

// files adds what is in the files of a directory, also in those without a name that this process has open.
func (p *pile) files(t *testing.T, dir string) (count int) {
	t.Helper()
	add := func(name string) {
		if text, err := os.ReadFile(name); err == nil {
			count++
			_, _ = p.Write(text)
		}
	}
	_ = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			add(name)
		}
		return nil
	})
	descriptors, _ := filepath.Glob("/proc/self/fd/*")
	for _, d := range descriptors {
		if target, err := os.Readlink(d); err == nil && strings.HasPrefix(target, dir) {
			add(d)
		}
	}
	return count
}

// A password typed into read -s, getpass, su and ssh-keygen is in no file, event, log or record (searched for in all). The runtime keeps,
// records, audits and counts as much as it can, and one of the programs prints more than memory has room for.
func TestAPasswordThatIsTypedIsNowhere(t *testing.T) {
	t.Parallel()
	shown, secret := "shown-"+uuid.NewString(), "hunter2-"+uuid.NewString()
	dir, found := t.TempDir(), &pile{}
	programs := map[string][]string{
		"read -s":    {"bash", "-c", `seq 100000; read -p "Name: " name; seq 200000; read -s -p "Password: " x; echo; read -s -n 3 -p "More: " y; echo "got ${#x}"`},
		"getpass":    {"python3", "-c", "import getpass; name = input('Name: '); print(len(getpass.getpass()))"},
		"ssh-keygen": {"bash", "-c", `read -p "Name: " name; exec ssh-keygen -q -t ed25519 -f ` + filepath.Join(dir, "key")},
		"su":         {"bash", "-c", `read -p "Name: " name; exec su root -c true`},
	}
	if os.Geteuid() == 0 { // root is not asked
		programs["su"] = []string{"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "bash", "-c", `read -p "Name: " name; exec su root -c true`}
	}
	m, log := newMeter(), filepath.Join(dir, "audit.jsonl")
	rt := newRuntime(t, execbus.Options{Spool: execbus.SpoolOptions{Dir: filepath.Join(dir, "spool", "files"), PerProcess: 4 << 20}, Audit: execbus.AuditOptions{File: log},
		TracerProvider: noted{to: found}, MeterProvider: m.meters(), Logger: slog.New(slog.NewJSONHandler(found, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	session := openSession(t, rt, execbus.SessionOptions{Record: record.Options{Dir: filepath.Join(dir, "record"), Input: true}})
	events, err := session.Events(execbus.Watch{Lossless: true})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	kinds := map[messages.InputKind]int{}
	go func() {
		defer close(done)
		for event, err := range events.All(context.Background()) {
			if err != nil {
				return
			}
			text, err := json.Marshal(event)
			fmt.Fprintf(found, "%s %v\n", text, err)
			if e, is := event.(messages.TerminalInteraction); is {
				kinds[e.Mode]++
				if e.Mode == messages.InputSecret && e.Input != nil {
					t.Errorf("an event has %d bytes of a secret", len(e.Input))
				}
				_, _ = found.Write(e.Input)
			}
		}
	}()
	tried := 0
	for name, argv := range programs {
		if _, err := osexec.LookPath(argv[0]); err != nil {
			t.Logf("skipped %s: %v", name, err)
			continue
		}
		if program, _, _ := strings.Cut(name, " "); program != "read" && program != "getpass" {
			if _, err := osexec.LookPath(program); err != nil {
				t.Logf("skipped %s: %v", name, err)
				continue
			}
		}
		waits := messages.Until{AwaitingInput: true, Guesses: true}
		result := exec(t, session, messages.ExecCommand{Argv: argv, TTY: true, Until: &waits, Yield: new(messages.MaxYield)})
		typed := []string{shown + "\n", secret + "\n", secret + "\n"}
		for i := 0; i < len(typed) && result.Running; i++ {
			kind := result.Met
			if i == 2 && (kind == nil || kind.Input == nil || kind.Input.Kind == messages.InputLine) { // su as another user has its echo back before it ends
				break
			}
			if i == 1 && (kind == nil || kind.Input == nil || kind.Input.Kind != messages.InputSecret) {
				t.Logf("skipped %s: it does not wait for a secret, but %v after %q", name, kind, result.Output)
				break
			}
			if i == 1 {
				tried++
			}
			result, err = session.Write(patient(t), messages.WriteStdin{Process: result.Process, Bytes: []byte(typed[i]), Until: &waits})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
			text, _ := json.Marshal(result)
			fmt.Fprintf(found, "%s %s\n", text, result.Output)
		}
		if name == "read -s" { // its output is in a file by now, as far as memory has no room for it
			eventually(t, "the file", func() bool {
				return len(read(t, session, messages.ReadOutput{Process: result.Process, Tail: 1}).Retained) == 1
			})
		}
		if result != nil && result.Running {
			if _, err := session.Terminate(patient(t), messages.Terminate{Process: result.Process}); err != nil && !errors.Is(err, messages.ErrUnknownProcess) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	spooled := &pile{}
	if n := spooled.files(t, filepath.Join(dir, "spool")); n != 1 || !spooled.has(shown) {
		t.Errorf("%d files have output, or not what a terminal has shown", n)
	}
	_, _ = found.Write(spooled.all.Bytes())
	if err := session.Close(patient(t)); err != nil {
		t.Error(err)
	}
	<-done
	if n := found.files(t, filepath.Join(dir, "record")); n < tried || tried == 0 {
		t.Errorf("%d recordings of %d programs", n, tried)
	}
	inputs := map[any]int{}
	for _, e := range entries(t, rt, log) {
		if e.is(messages.KindTerminalInteraction) {
			inputs[e["mode"]]++
			if e["mode"] == string(messages.InputSecret) && e["digest"] != nil {
				t.Errorf("the audit log has of a secret: %v", e)
			}
		}
	}
	for mode, n := range kinds {
		if inputs[string(mode)] != n {
			t.Errorf("the audit log has %d inputs of the mode %s, want %d", inputs[string(mode)], mode, n)
		}
	}
	if n := found.files(t, dir); n < tried+2 { // the log, its head, keys, and the recordings once more
		t.Errorf("%d files", n)
	}
	fmt.Fprintln(found, m.counts, m.labels, m.spans) // nobody counts any more
	if m.counts["execbus.output"] == 0 {
		t.Error("nothing was counted")
	}
	if !found.has(shown) || kinds[messages.InputLine] == 0 || kinds[messages.InputSecret] == 0 {
		t.Errorf("what was shown was not found, so nothing can be: %v", kinds)
	}
	if found.has(secret) {
		t.Error("the password was found")
	}
}
