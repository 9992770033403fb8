//go:build linux

package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
	"github.com/execbus/execbus/tests/proc"
)

func write(t *testing.T, mode os.FileMode, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	syscall.ForkLock.RLock() // a child of a parallel test would have it open for writing, and it could not be executed
	err := os.WriteFile(path, []byte(text), mode)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

type failure struct {
	name   string
	launch ptyio.Launch
	code   messages.ErrorCode
	says   string
	user   bool // root is allowed to do it
}

func failures(t *testing.T) []failure {
	t.Helper()
	deleted := filepath.Join(t.TempDir(), "deleted")
	closed, _ := os.Open(os.DevNull)
	_ = closed.Close()
	unreadable := filepath.Join(t.TempDir(), "unreadable")
	_ = os.Mkdir(unreadable, 0)
	plain := func(argv ...string) ptyio.Launch { return launch(false, argv...) }
	in := func(dir string) ptyio.Launch { l := plain("true"); l.Dir = dir; return l }
	return []failure{
		{name: "missing program", launch: plain("no-such-program-here"), code: messages.ErrNoSuchProgram},
		{name: "missing path", launch: plain("/no/such/program"), code: messages.ErrNoSuchProgram},
		{name: "directory", launch: plain("/usr/bin"), code: messages.ErrSpawnFailed, says: "directory"},
		{name: "no execute permission", launch: plain(write(t, 0o644, "#!/bin/sh\n")), code: messages.ErrSpawnFailed, says: "permission"},
		{name: "bad interpreter", launch: plain(write(t, 0o755, "#!/no/such/interpreter\n")), code: messages.ErrSpawnFailed, says: "interpreter"},
		{name: "no program at all", launch: plain(write(t, 0o755, "\x01\x02\x03")), code: messages.ErrSpawnFailed, says: "cannot run that file"},
		{name: "empty argv", launch: plain(), code: messages.ErrInvalidRequest},
		{name: "empty name", launch: plain(""), code: messages.ErrInvalidRequest},
		{name: "NUL", launch: plain("echo", "a\x00b"), code: messages.ErrInvalidRequest},
		{name: "3 MiB argument", launch: plain("true", strings.Repeat("a", 3<<20)), code: messages.ErrSpawnFailed, says: "too long"},
		{name: "3 MiB of arguments", launch: plain(slices.Repeat([]string{"true", strings.Repeat("a", 100<<10)}, 30)...),
			code: messages.ErrSpawnFailed, says: "too long"},
		{name: "missing directory", launch: in("/no/such/directory"), code: messages.ErrSpawnFailed, says: "working directory"},
		{name: "deleted directory", launch: in(deleted), code: messages.ErrSpawnFailed, says: "working directory"},
		{name: "file for a directory", launch: in("/etc/passwd"), code: messages.ErrSpawnFailed, says: "working directory"},
		{name: "unreadable directory", launch: in(unreadable), code: messages.ErrSpawnFailed, says: "permission", user: true},
		{name: "closed inherited file", launch: ptyio.Launch{Argv: []string{"true"}, Env: environment(), Dir: "/",
			Inherit: []ptyio.Inherited{{FD: 3, File: closed}}}, code: messages.ErrInvalidRequest},
	}
}

func TestSpawnFailuresAreTypedAndLeaveNothing(t *testing.T) {
	cases := failures(t)
	for _, direct := range []bool{false, true} {
		for _, tty := range []bool{false, true} {
			spawner := newSpawner(t, sandbox.Options{Direct: direct})
			first, record := run(t, spawner, launch(tty, "cat"))
			parent := max(wardenAbove(first.PID()), 0)
			before := len(proc.Descriptors(os.Getpid()))
			for _, c := range cases {
				t.Run(spawnerName(direct)+"/"+streamsName(tty)+"/"+c.name, func(t *testing.T) {
					if c.user && os.Geteuid() == 0 {
						t.Skip("root may enter every directory")
					}
					c.launch.TTY = tty
					c.launch.Events = func(e ptyio.Event) { t.Errorf("an event: %T", e) }
					child, err := spawner.Spawn(t.Context(), c.launch)
					var typed *messages.Error
					if child != nil || !errors.As(err, &typed) || typed.Code != c.code || !strings.Contains(err.Error(), c.says) {
						t.Errorf("%v, %v", child, err)
					}
				})
			}
			runtime.GC()
			eventually(t, "no descriptor is left", func() bool { return len(proc.Descriptors(os.Getpid())) <= before })
			if parent != 0 {
				if living, dead := children(parent); living != 1 || dead != 0 {
					t.Errorf("%d living and %d dead children", living, dead)
				}
			}
			if record.has(isExited) {
				t.Error("a failure of others ended the first child")
			}
			first.EndTree(0)
			record.awaitEnd(t)
		}
	}
}

func TestACancelledSpawnLeavesNothing(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		token := newToken()
		for i := range 60 {
			ctx, cancel := context.WithCancel(context.Background())
			if i%10 == 0 {
				cancel()
			} else {
				time.AfterFunc(time.Duration(i)*20*time.Microsecond, cancel)
			}
			l := launch(tty, "sleep", token)
			record := newRecorder()
			l.Events = record.receive
			child, err := spawner.Spawn(ctx, l)
			switch {
			case err == nil && i%10 == 0:
				t.Error("spawned although cancelled before")
				fallthrough
			case err == nil:
				child.EndTree(0)
				record.awaitEnd(t)
			case !errors.Is(err, messages.ErrCancelled):
				t.Errorf("error %v", err)
			case record.has(func(ptyio.Event) bool { return true }):
				t.Errorf("events of a child that is none: %v", record)
			}
			cancel()
		}
		noneLeft(t, token)
	})
}

func TestExhaustedDescriptorsFailTheSpawnAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, direct := range []bool{false, true} {
		t.Run(spawnerName(direct), func(t *testing.T) {
			t.Parallel() // it waits most of the time
			_, record := run(t, newSpawner(t, sandbox.Options{}), helper(t, false, "poor", "SPAWNER="+spawnerName(direct)))
			record.awaitEnd(t)
			out := record.output.String()
			if !strings.Contains(out, "too many") || !strings.Contains(out, "leaked 0") || !strings.Contains(out, "closed") ||
				strings.Contains(out, "a child was lost") {
				t.Errorf("output %s", out)
			}
		})
	}
}

func TestOnlyNamedDescriptorsAreInherited(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		l := bash(tty, "exec ls -1 /proc/self/fd") // 3 is the directory that ls reads, or the next free number
		for _, fd := range []int{10, 255} {
			file, err := os.Open(os.DevNull)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			l.Inherit = append(l.Inherit, ptyio.Inherited{FD: fd, File: file})
		}
		_, record := run(t, spawner, l)
		record.awaitEnd(t)
		if got := strings.Fields(record.output.String()); !slices.Equal(got, []string{"0", "1", "10", "2", "255", "3"}) {
			t.Errorf("descriptors %v", got)
		}
	})
}

func TestDescriptorsThatTheHostInheritedStayThere(t *testing.T) {
	command := exec.Command(self(t))
	command.Env = environment(roleVariable + "=leaky")
	out, err := command.CombinedOutput()
	if err != nil || string(out) != `"0\n1\n2\n3\n"`+"\n"+`"0\n1\n2\n3\n"`+"\n" {
		t.Errorf("%v %s", err, out)
	}
}

func TestInheritedDescriptorsWorkUnderTheirNumbers(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		for _, fd := range []string{"3", "10", "255"} {
			number := map[string]int{"3": 3, "10": 10, "255": 255}[fd]
			input, feed, _ := os.Pipe()
			drain, output, _ := os.Pipe()
			l := bash(tty, `cat <&`+fd+` >&4`)
			l.Inherit = []ptyio.Inherited{{FD: number, File: input}, {FD: 4, File: output}}
			_, record := run(t, spawner, l)
			_ = input.Close()
			_ = output.Close()
			go func() { // more than a pipe holds, so that the child has to wait for us and we for it
				_, _ = feed.Write(bytes.Repeat([]byte("x"), 300<<10))
				_ = feed.Close()
			}()
			var got bytes.Buffer
			_, _ = got.ReadFrom(drain)
			_ = drain.Close()
			record.awaitEnd(t)
			if status := awaitEvent[ptyio.Exited](t, record).Status; status != messages.StatusExited(0) || got.Len() != 300<<10 {
				t.Errorf("descriptor %s: %v, %d bytes, %v", fd, status, got.Len(), record)
			}
		}
	})
}

func TestAChildsStandardStreamsBlock(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		_, record := run(t, spawner, bash(tty, `for i in 0 1 2; do grep flags /proc/self/fdinfo/$i; done`))
		record.awaitEnd(t)
		words := strings.Fields(record.output.String())
		if len(words) != 6 {
			t.Fatalf("%q", words)
		}
		for _, word := range words {
			if flags, err := strconv.ParseInt(word, 8, 64); word != "flags:" && (err != nil || flags&syscall.O_NONBLOCK != 0) {
				t.Errorf("O_NONBLOCK is set: %q", words)
			}
		}
	})
}

func TestCloseEndsEverythingAndRefusesMore(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		t.Parallel() // it waits most of the time
		token := newToken()
		var records []*recorder
		for range 8 {
			_, record := run(t, spawner, bash(tty, `trap "" TERM HUP; sleep $1 & (setsid sleep $1 &); echo ready; wait`, token))
			records = append(records, record)
		}
		for _, record := range records {
			record.awaitOutput(t, "ready")
		}
		second := make(chan error)
		go func() { second <- spawner.Close() }()
		if err := spawner.Close(); err != nil {
			t.Error(err)
		}
		if err := <-second; err != nil {
			t.Error(err)
		}
		for _, record := range records {
			if !record.has(isTreeEnded) {
				t.Error("Close returned before TreeEnded")
			}
			record.awaitEnd(t)
			if exited := awaitEvent[ptyio.Exited](t, record); exited.Lost != nil {
				t.Errorf("%+v", exited)
			}
		}
		noneLeftUnlessDirect(t, token, awaitEvent[ptyio.TreeEnded](t, records[0]).Airtight)
		l := launch(tty, "true")
		l.Events = newRecorder().receive
		if _, err := spawner.Spawn(t.Context(), l); !errors.Is(err, messages.ErrClosed) {
			t.Errorf("spawn after Close: %v", err)
		}
	})
}

// noneLeftUnlessDirect kills the processes that the direct spawner cannot find, as it documents: daemons that left the
// session.
func noneLeftUnlessDirect(t *testing.T, token string, airtight bool) {
	if airtight {
		if left := observe(token); len(left) > 0 {
			t.Errorf("Close returned, but %v", left)
		}
		return
	}
	for _, p := range observe(token) {
		if process, err := os.FindProcess(p.pid); err == nil {
			_ = process.Kill()
		}
	}
	noneLeft(t, token)
}

func TestSpawnsThatRaceWithCloseEndOrFail(t *testing.T) {
	for _, direct := range []bool{false, true} {
		t.Run(spawnerName(direct), func(t *testing.T) {
			for range 5 {
				spawner, _ := sandbox.New(sandbox.Options{Direct: direct})
				token := newToken()
				type outcome struct {
					record *recorder
					err    error
				}
				outcomes := make(chan outcome)
				for range 20 {
					go func() {
						record := newRecorder()
						l := launch(false, "sleep", token)
						l.Events = record.receive
						_, err := spawner.Spawn(context.Background(), l)
						outcomes <- outcome{record, err}
					}()
				}
				first := <-outcomes
				_ = spawner.Close()
				for i := range 20 {
					o := first
					if i > 0 {
						o = <-outcomes
					}
					if o.err == nil {
						o.record.awaitEnd(t)
					} else if !errors.Is(o.err, messages.ErrClosed) {
						t.Errorf("error %v", o.err)
					}
				}
				if left := observe(token); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			}
		})
	}
}
