// Package measure runs a program that runs commands, and measures how much of their output is lost and how many of their
// daemons are left. It ends those daemons. It needs /proc. It panics with an error if something cannot be measured.
package measure

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

// rounds is how often each thing is done.
const rounds = 5

// A line is 8 bytes, and tee knows how many were said. A daemon has a session of its own.
const (
	says      = `trap "" INT TERM; echo >>"$COMPARE/begun"; seq -f %07g 1 20000 | tee -a "$COMPARE/said"; exit`
	bytesSaid = 8 * 20000
	leaves    = `setsid sh -c 'echo >>"$COMPARE/begun"; exec sleep 1001' & `
)

// host is a program at work, in a directory that its commands know as COMPARE.
type host struct {
	*exec.Cmd
	dir string
}

func start(binary string, argv ...string) host {
	dir, err := os.MkdirTemp(filepath.Dir(binary), "host-")
	check(err)
	h := host{exec.Command(binary, argv...), dir}
	h.Dir, h.Env = filepath.Join(dir, "watched"), append(os.Environ(), "COMPARE="+dir)
	check(os.Mkdir(h.Dir, 0o700))
	out, err := os.Create(filepath.Join(dir, "out"))
	check(err)
	defer out.Close()
	h.Stdout, h.Stderr = out, out
	check(h.Start())
	return h
}

func (h host) text(name string) []byte {
	text, _ := os.ReadFile(filepath.Join(h.dir, name))
	return text
}

// poll waits until something holds, and says whether it did in time.
func poll(bound time.Duration, holds func() bool) bool {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(bound); !holds(); <-ticker.C {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// wait waits until commands have noted something so many times. It does what makes them run more than once, as an early change
// may be missed.
func (h host) wait(note string, times int, again func()) {
	for range 10 {
		if again(); poll(2*time.Second, func() bool { return len(h.text(note)) >= times }) {
			return
		}
	}
	panic("the command does not run")
}

func (h host) change() { check(os.WriteFile(filepath.Join(h.Dir, "file"), []byte("changed"), 0o600)) }

// end ends the host by a signal, gives what it has begun 2 s to end as well, and counts the daemons that have not.
func (h host) end(sig syscall.Signal) (daemons int) {
	check(h.Process.Signal(sig))
	_ = h.Wait()
	poll(2*time.Second, func() bool { return len(h.left("sleep\x001001\x00")) == 0 })
	daemons = len(h.left("sleep\x001001\x00"))
	for _, pid := range h.left("") {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return daemons
}

// left are the processes below the host whose command line begins like this.
func (h host) left(line string) (pids []int) {
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

// lost says how many bytes were written and how many of them are missing from the output. A terminal may put ^C before a line.
// Bytes that arrived count as written even if tee was killed before it could record them.
func (h host) lost(output []byte) (said, lost int) {
	arrived := 8 * len(regexp.MustCompile(`(?m)\d{7}\r*$`).FindAll(output, -1))
	said = max(arrived, len(h.text("said")))
	return said, said - arrived
}

func of(part, all int, unit string) string { return fmt.Sprintf("%d of %d%s", part, all, unit) }

// Watcher measures a program that runs a command when files change: output lost of commands and of a service, daemons left when it
// was stopped and when it was killed.
func Watcher(binary string, flags ...string) (cells []string) {
	once, service := append(flags, "--", "sh", "-c"), append(flags, "-s", "--", "sh", "-c")
	nothing := func() {}
	for i, argv := range [][]string{append(once, says),
		append(service, `trap '`+says+`' INT TERM; echo >>"$COMPARE/ready"; while :; do sleep 0.05; done`)} {
		h := start(binary, argv...)
		for n := range rounds {
			if i == 1 { // the service is there to be restarted
				h.wait("ready", n+1, nothing)
			}
			h.wait("begun", n+1, h.change)
			poll(2*time.Second, func() bool {
				said, lost := h.lost(h.text("out"))
				return said >= (n+1)*bytesSaid && lost == 0
			})
		}
		h.end(syscall.SIGINT)
		said, lost := h.lost(h.text("out"))
		cells = append(cells, of(lost, said, " bytes"))
	}
	service = append(service, leaves+"exec sleep 1000")
	h := start(binary, service...)
	for n := range rounds {
		h.wait("begun", n+1, h.change)
	}
	killed, stopped := 0, h.end(syscall.SIGINT)
	for range rounds {
		h := start(binary, service...)
		h.wait("begun", 1, nothing)
		killed += h.end(syscall.SIGKILL)
	}
	return append(cells, of(stopped, rounds, ""), of(killed, rounds, ""))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
