package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/execbus/execbus/cmd/internal/ask"
	"github.com/execbus/execbus/tests/proc"
)

// seat is a terminal with a shell, and everything that the screen has shown. The shell runs the demo and prints how it
// ended.
type seat struct {
	t      *testing.T
	master *os.File
	slave  *os.File // keeps the terminal open, so that its modes can be read
	shell  *exec.Cmd
	before term.State

	mu   sync.Mutex
	raw  []byte
	read int // how much of it expect has consumed
	news chan struct{}
}

func open(t *testing.T, rows, cols uint16) *seat {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	s := &seat{t: t, master: master, slave: slave, news: make(chan struct{}, 1)}
	s.resize(rows, cols)
	s.before = s.modes()
	go func() {
		buffer := make([]byte, 32<<10)
		for {
			n, err := master.Read(buffer)
			s.mu.Lock()
			s.raw = append(s.raw, buffer[:n]...)
			s.mu.Unlock()
			select {
			case s.news <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		if s.shell != nil {
			_ = s.shell.Process.Kill()
			_ = s.shell.Wait()
		}
		slave.Close()
		master.Close()
		if t.Failed() {
			t.Logf("the terminal showed:\n%s", s.shown())
		}
	})
	return s
}

// begin starts the demo.
func (s *seat) begin(more []string, arguments ...string) {
	s.t.Helper()
	script := `"$@"; echo "the demo ended with:" $?; exec cat`
	s.shell = exec.Command("sh", append([]string{"-c", script, "sh", self(s.t)}, arguments...)...)
	s.shell.Env = variables(s.t, more...)
	s.shell.Stdin, s.shell.Stdout, s.shell.Stderr = s.slave, s.slave, s.slave
	s.shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.shell.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// sit starts the host, without colours, and waits for its prompt.
func sit(t *testing.T, more ...string) *seat {
	t.Helper()
	s := open(t, 24, 100)
	s.begin(append([]string{"NO_COLOR=1"}, more...))
	s.expect("demo> ")
	return s
}

// quit ends the demo.
func (s *seat) quit() {
	s.t.Helper()
	s.send(":quit\r")
	s.ends(0)
}

func (s *seat) send(keys string) {
	s.t.Helper()
	if _, err := s.master.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

func (s *seat) resize(rows, cols uint16) {
	s.t.Helper()
	if err := pty.Setsize(s.master, &pty.Winsize{Rows: rows, Cols: cols}); err != nil {
		s.t.Fatal(err)
	}
}

// moves matches the sequences by which the line editor goes to the beginning of a line that it then clears.
var moves = regexp.MustCompile(`\x1b\[\d*[A-D]`)

// shown returns what the screen has shown, with a new line in place of every line that was cleared, and without what undoes the
// changes of a command.
func (s *seat) shown() string {
	text := strings.NewReplacer(ask.Reset(), "", pasteOn, "", pasteOff, "", "\r", "").Replace(s.written())
	return strings.ReplaceAll(moves.ReplaceAllString(text, ""), "\x1b[K", "\n")
}

// written returns every byte that the terminal got.
func (s *seat) written() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.raw)
}

// expect waits until the pattern is shown, after the text that earlier calls found. It returns the pattern's groups.
func (s *seat) expect(pattern string) []string {
	s.t.Helper()
	compiled := regexp.MustCompile(pattern)
	deadline := time.After(patience)
	for {
		shown := s.shown()
		var groups []string
		if match := compiled.FindStringSubmatchIndex(shown[s.read:]); match != nil {
			for i := 0; i < len(match); i += 2 {
				groups = append(groups, shown[s.read+match[i]:s.read+match[i+1]])
			}
			s.read += match[1]
		}
		if groups != nil {
			return groups
		}
		select {
		case <-s.news:
		case <-deadline:
			s.t.Fatalf("%q was not shown, but %q", pattern, shown[s.read:])
		}
	}
}

// ended waits for the end of the demo and returns its exit code.
func (s *seat) ended() string { s.t.Helper(); return s.expect(`the demo ended with: (\d+)\n`)[1] }

func (s *seat) ends(code int) {
	s.t.Helper()
	if got := s.ended(); got != strconv.Itoa(code) {
		s.t.Errorf("the demo ended with %s, want %d", got, code)
	}
}

func (s *seat) modes() term.State {
	s.t.Helper()
	modes, err := term.GetState(int(s.slave.Fd()))
	if err != nil {
		s.t.Fatal(err)
	}
	return *modes
}

// restored waits until the terminal has its earlier modes.
func (s *seat) restored() {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for s.modes() != s.before {
		if time.Now().After(deadline) {
			s.t.Fatalf("the terminal has the modes %+v, had %+v", s.modes(), s.before)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// demo returns the process that the shell has started: the guard.
func (s *seat) demo() int { s.t.Helper(); return onlyChild(s.t, s.shell.Process.Pid) }

// host returns the process whose child is the warden.
func (s *seat) host() int { s.t.Helper(); return onlyChild(s.t, s.demo()) }

func onlyChild(t *testing.T, parent int) (child int) {
	t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*")
	if len(files) == 0 {
		t.Skipf("there is no /proc on %s to find processes in", runtime.GOOS)
	}
	for _, file := range files {
		pid, _ := strconv.Atoi(filepath.Base(file))
		if proc.Look(pid).Parent != parent {
			continue
		}
		if child != 0 {
			t.Fatalf("process %d has the children %d and %d, want one", parent, child, pid)
		}
		child = pid
	}
	if child == 0 {
		t.Fatalf("process %d has no child", parent)
	}
	return child
}

func (s *seat) signal(pid int, number syscall.Signal) {
	s.t.Helper()
	if err := syscall.Kill(pid, number); err != nil {
		s.t.Fatal(err)
	}
}

// alive reports whether a process lives; a zombie does not.
func alive(pid string) bool {
	n, err := strconv.Atoi(pid)
	if err != nil {
		panic(fmt.Sprintf("%q is no pid", pid))
	}
	return syscall.Kill(n, 0) == nil && proc.Look(n).State != 'Z'
}

// gone waits until a process has ended.
func gone(t *testing.T, pid string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for alive(pid) {
		if time.Now().After(deadline) {
			t.Fatalf("process %s outlived the demo", pid)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
