// Package host runs a program that itself runs commands, and measures how much of their output is lost and how many of their
// daemons are left. It ends those daemons. It needs /proc. It panics with an error if something cannot be measured.
package host

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"
)

// Rounds is how often each thing is done.
const Rounds = 5

// Parts of the scripts that a host runs: Says writes BytesSaid bytes, in lines of 8, and exits. tee counts what was written.
// Leaves starts a daemon with a session of its own.
const (
	Says      = `trap "" INT TERM; echo >>"$COMPARE/begun"; seq -f %07g 1 20000 | tee -a "$COMPARE/said"; exit`
	BytesSaid = 8 * 20000
	Leaves    = `setsid sh -c 'echo >>"$COMPARE/begun"; exec sleep 1001' & `
)

// Host is a running program, in a directory that its commands know as COMPARE.
type Host struct {
	command *exec.Cmd
	dir     string
}

// Start starts a host, whose scratch directory is beside the binary.
func Start(binary string, argv ...string) Host {
	dir, err := os.MkdirTemp(filepath.Dir(binary), "host-")
	Check(err)
	h := Host{command: exec.Command(binary, argv...), dir: dir}
	h.command.Dir, h.command.Env = filepath.Join(dir, "watched"), append(os.Environ(), "COMPARE="+dir)
	Check(os.Mkdir(h.command.Dir, 0o700))
	out, err := os.Create(filepath.Join(dir, "out"))
	Check(err)
	defer out.Close()
	h.command.Stdout, h.command.Stderr = out, out
	Check(h.command.Start())
	return h
}

// Text is a file that the host or its commands have written; "out" is what the host has printed.
func (h Host) Text(name string) []byte {
	text, _ := os.ReadFile(filepath.Join(h.dir, name))
	return text
}

// Poll waits until something holds, and says whether it did in time.
func Poll(bound time.Duration, holds func() bool) bool {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(bound); !holds(); <-ticker.C {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// Wait waits until the commands have noted something so many times. It calls again, which makes them run, until then: the host
// may miss an early change.
func (h Host) Wait(note string, times int, again func()) {
	for range 10 {
		if again(); Poll(2*time.Second, func() bool { return len(h.Text(note)) >= times }) {
			return
		}
	}
	panic("the command does not run")
}

// Change changes a file that the host watches.
func (h Host) Change() {
	Check(os.WriteFile(filepath.Join(h.command.Dir, "file"), []byte("changed"), 0o600))
}

// End ends the host by a signal, gives its daemons 2 s to end as well, and counts those that have not.
func (h Host) End(sig syscall.Signal) (daemons int) {
	Check(h.command.Process.Signal(sig))
	_ = h.command.Wait()
	Poll(2*time.Second, func() bool { return len(h.left("sleep\x001001\x00")) == 0 })
	daemons = len(h.left("sleep\x001001\x00"))
	for _, pid := range h.left("") {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return daemons
}

// left returns the processes of the host whose command line begins with line.
func (h Host) left(line string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		environment, _ := os.ReadFile(file)
		argv, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && bytes.HasPrefix(argv, []byte(line)) &&
			bytes.Contains(environment, []byte("COMPARE="+h.dir+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Lost returns how many bytes were written and how many of them are missing from the output. A terminal may put ^C before a line.
// Bytes that arrived count as written even if tee was killed before it could record them.
func (h Host) Lost(output []byte) (said, lost int) {
	arrived := 8 * len(regexp.MustCompile(`(?m)\d{7}\r*$`).FindAll(output, -1))
	said = max(arrived, len(h.Text("said")))
	return said, said - arrived
}

// Of formats a cell of the table.
func Of(part, all int, unit string) string { return fmt.Sprintf("%d of %d%s", part, all, unit) }

// Check ends the measurement of one program.
func Check(err error) {
	if err != nil {
		panic(err)
	}
}
