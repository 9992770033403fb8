//go:build linux

package hostile_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var (
	soak = flag.Bool("soak", false, "run every list in full instead of a twentieth of it")
	seed = flag.Uint64("seed", 1, "of the random moments at which hosts are killed")
)

// sample returns how much of a long list is run.
func sample(full int) int {
	if *soak {
		return full
	}
	return max(full/20, 1)
}

// thinned reports whether a sample leaves out the case with this number.
func thinned(i int) bool { return !*soak && i%raceStep != 0 }

// Set by TestMain.
var (
	self        string // this binary
	scratchRoot string // where cases put their files; it is not TMPDIR, in which nothing may be left
	temporary   string // TMPDIR
)

func TestMain(m *testing.M) {
	var err error
	self, err = os.Executable()
	must(err)
	if role := os.Getenv(roleVariable); role != "" {
		play(role)
		os.Exit(0)
	}
	flag.Parse()
	os.Exit(tests(m))
}

func tests(m *testing.M) int {
	var err error
	scratchRoot, err = os.MkdirTemp("", "execbus-hostile-")
	must(err)
	defer os.RemoveAll(scratchRoot)
	temporary = filepath.Join(scratchRoot, "tmp")
	must(os.Mkdir(temporary, 0o700))
	must(os.Setenv("TMPDIR", temporary))
	must(unix.Prlimit(0, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)) // some signals would dump core
	code := m.Run()
	if testing.Verbose() {
		fmt.Print(ledger.table())
	}
	return code
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(98)
	}
}

// scratch makes a directory for a case.
func scratch(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.MkdirTemp(scratchRoot, name+"-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// ledger is the summary of all cases.
var ledger = &book{rows: map[string]*row{}}

type book struct {
	mu    sync.Mutex
	names []string
	rows  map[string]*row
}

type row struct {
	runs, failed int
	outcomes     []string
	slowest      time.Duration
}

// enter opens a row for a case. The row is filled in when the case ends, with the last note as its outcome.
func (b *book) enter(t *testing.T) {
	began := time.Now()
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		r := b.row(t.Name())
		r.runs++
		if t.Failed() {
			r.failed++
		}
		r.slowest = max(r.slowest, time.Since(began))
	})
}

func (b *book) row(name string) *row {
	name = strings.TrimPrefix(name, "Test")
	if b.rows[name] == nil {
		b.rows[name] = &row{}
		b.names = append(b.names, name)
	}
	return b.rows[name]
}

// note adds the outcome of a case.
func note(t testing.TB, format string, values ...any) {
	t.Helper()
	text := fmt.Sprintf(format, values...)
	t.Log(text)
	ledger.mu.Lock()
	defer ledger.mu.Unlock()
	if r := ledger.row(t.Name()); !slices.Contains(r.outcomes, text) && len(r.outcomes) < 4 {
		r.outcomes = append(r.outcomes, text)
	}
}

func skip(t testing.TB, why string) {
	t.Helper()
	note(t, "SKIPPED: %s", why)
	t.Skip(why)
}

func (b *book) table() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var text strings.Builder
	fmt.Fprintf(&text, "\nuid %d; runs/failed, the slowest, the outcomes\n", os.Getuid())
	for _, name := range b.names {
		r := b.rows[name]
		fmt.Fprintf(&text, "%-72s %3d/%d %6d ms  %s\n", name, r.runs, r.failed, r.slowest.Milliseconds(), strings.Join(r.outcomes, " | "))
	}
	return text.String()
}

// elsewhereVariable is set in a process that runs one test for another process.
const elsewhereVariable = "EXECBUS_HOSTILE_ELSEWHERE"

// elsewhere runs this test in a process of its own, unless this is that process: if the host crashes, the other tests go on.
func elsewhere(t *testing.T) bool {
	t.Helper()
	if os.Getenv(elsewhereVariable) != "" {
		return false
	}
	parts := strings.Split(t.Name(), "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	command := exec.CommandContext(ctx, self, "-test.v", "-test.timeout=2m", "-test.run="+strings.Join(parts, "/"), fmt.Sprintf("-soak=%v", *soak))
	command.Env = append(os.Environ(), elsewhereVariable+"=1", "TMPDIR="+scratchRoot)
	output, err := command.CombinedOutput()
	for line := range strings.Lines(string(output)) {
		if name, rest, found := strings.Cut(line, " ms  "); found && strings.HasPrefix(name, strings.TrimPrefix(t.Name(), "Test")+" ") {
			note(t, "%s", strings.TrimSpace(rest))
		}
	}
	if err != nil {
		note(t, "in a process of its own: %v", err)
		t.Errorf("%s", output[:min(len(output), 6000)])
	}
	return true
}
