//go:build linux

package hostile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// Scarcity is tested in hosts of their own, which are programs of this binary. They print each error, and at the end a
// summary in one line.

// poorHost is a runtime and a session of such a program.
type poorHost struct {
	runtime *execbus.Runtime
	session *execbus.Session
	ctx     context.Context
	wrong   bool
}

// startPoor starts a host. Its warden runs, and everything that is opened only once is open.
func startPoor() *poorHost {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	context.AfterFunc(ctx, func() { fmt.Println("WRONG: it takes a minute"); os.Exit(1) })
	_ = cancel
	h := &poorHost{ctx: ctx}
	var err error
	h.runtime, err = execbus.Start(execbus.Options{})
	must(err)
	h.session, err = h.runtime.OpenSession(execbus.SessionOptions{MaxProcesses: 200})
	must(err)
	for _, tty := range []bool{false, true} {
		id, err := h.cat(tty)
		must(err)
		h.check(id, "at first")
		h.end(id)
	}
	return h
}

func (h *poorHost) complain(format string, values ...any) {
	h.wrong = true
	fmt.Printf("WRONG: "+format+"\n", values...)
}

// finish shuts down and prints the summary.
func (h *poorHost) finish(format string, values ...any) {
	if err := h.runtime.Shutdown(h.ctx); err != nil {
		h.complain("shutdown: %v", err)
	}
	fmt.Printf("SUM: "+format+"\n", values...)
	if h.wrong {
		os.Exit(1)
	}
}

func (h *poorHost) cat(tty bool) (messages.ProcessID, error) {
	p, err := h.session.Start(h.ctx, messages.ExecCommand{Argv: []string{"cat"}, TTY: tty, OpenStdin: true})
	if err != nil {
		return 0, err
	}
	return p.ID(), nil
}

// check checks that a cat still works.
func (h *poorHost) check(id messages.ProcessID, when string) {
	before := h.total(id, when)
	if _, err := h.session.Write(h.ctx, messages.WriteStdin{Process: id, Bytes: []byte("hello\n"), UntilTaken: true}); err != nil {
		h.complain("%s: a cat does not take input: %v", when, err)
		return
	}
	if _, ok := within(patience, func() bool { return h.total(id, when) >= before+int64(len("hello\n")) }); !ok {
		h.complain("%s: a cat does not answer", when)
	}
}

// total returns how much a process has written.
func (h *poorHost) total(id messages.ProcessID, when string) int64 {
	first := int64(0)
	page, err := h.session.Read(h.ctx, messages.ReadOutput{Process: id, Offset: &first, Max: 1})
	if err != nil {
		h.complain("%s: read: %v", when, err)
		return 0
	}
	return page.Total
}

func (h *poorHost) end(id messages.ProcessID) {
	if _, err := h.session.Terminate(h.ctx, messages.Terminate{Process: id}); err != nil {
		h.complain("terminate: %v", err)
	}
}

// judge checks that a refusal has the right error.
func (h *poorHost) judge(err error, when string) {
	if !errors.Is(err, messages.ErrSpawnFailed) {
		h.complain("%s: refused with %q: %v", when, codeOf(err), err)
	}
}

// settled checks that, some time after everything has ended, there are no more descriptors than before.
func (h *poorHost) settled(before int, when string) {
	if _, ok := within(patience, func() bool { return len(descriptors()) <= before }); !ok {
		h.complain("%s: %d descriptors, before %d: %q", when, len(descriptors()), before, descriptors())
	}
}

// bePoor leaves exactly 0, 1, 2, ... descriptors free, and requests a command each time.
func bePoor() {
	limit := unix.Rlimit{Cur: 100, Max: 100} // from the beginning: another limit would make another warden, within a second
	must(unix.Prlimit(0, unix.RLIMIT_NOFILE, &limit, nil))
	h := startPoor()
	witness, err := h.cat(false)
	must(err)
	h.check(witness, "at first")
	before := len(descriptors())
	refused, enough := 0, [2]int{-1, -1}
	for free := range 16 {
		for i, tty := range []bool{false, true} {
			when := fmt.Sprintf("%d free, tty=%v", free, tty)
			hoard := fillDescriptors(free)
			id, err := h.cat(tty)
			if err != nil {
				h.judge(err, when)
				refused++
			} else {
				if enough[i] < 0 {
					enough[i] = free
				}
				h.check(id, when)
			}
			h.check(witness, when)
			for _, fd := range hoard {
				_ = syscall.Close(fd)
			}
			if id != 0 {
				h.end(id)
			}
			h.settled(before, when)
			again, err := h.cat(tty)
			if err != nil {
				h.complain("%s, then all: %v", when, err)
				continue
			}
			h.end(again)
		}
	}
	h.end(witness)
	h.finish("%d of 32 refused (spawn_failed); pipes need %d descriptors, a terminal %d", refused, enough[0], enough[1])
}

// fillDescriptors opens files until so many descriptors are free.
func fillDescriptors(free int) (hoard []int) {
	for {
		fd, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		hoard = append(hoard, fd)
	}
	for range free {
		_ = syscall.Close(hoard[len(hoard)-1])
		hoard = hoard[:len(hoard)-1]
	}
	return hoard
}

// bePoorWarden takes the descriptors away from the warden.
func bePoorWarden() {
	h := startPoor()
	warden := wardens(os.Getpid())[0].pid
	var full unix.Rlimit
	must(unix.Prlimit(warden, unix.RLIMIT_NOFILE, nil, &full))
	refused, asked := 0, 0
	before := len(descriptors())
	for _, most := range []uint64{12, 14, 16, 17, 18, 19, 20, 21, 22, 24, 28, 40} {
		low := unix.Rlimit{Cur: most, Max: full.Max}
		must(unix.Prlimit(warden, unix.RLIMIT_NOFILE, &low, nil))
		var cats []messages.ProcessID
		for i := range 30 {
			asked++
			id, err := h.cat(i%2 == 0)
			if err != nil {
				h.judge(err, fmt.Sprintf("a warden with %d descriptors", most))
				refused++
				continue
			}
			cats = append(cats, id)
		}
		for _, id := range cats {
			h.check(id, fmt.Sprintf("a warden with %d descriptors", most))
		}
		must(unix.Prlimit(warden, unix.RLIMIT_NOFILE, &full, nil))
		for _, id := range cats {
			h.end(id)
		}
		h.settled(before, "a poor warden")
		id, err := h.cat(true)
		if err != nil {
			h.complain("a warden that is rich again: %v", err)
			continue
		}
		h.end(id)
	}
	if _, ok := within(patience, func() bool { alive, dead := children(warden); return len(alive)+len(dead) == 0 }); !ok {
		h.complain("the warden has children left")
	}
	h.finish("%d of %d refused (spawn_failed)", refused, asked)
}

// haveFewTerminals mounts a file system with only three terminals.
func haveFewTerminals() {
	const all = 3
	mount("devpts", "/dev/pts", "devpts", fmt.Sprintf("newinstance,ptmxmode=0666,mode=0620,max=%d", all))
	h := startPoor()
	before := len(descriptors())
	for range 3 {
		var cats []messages.ProcessID
		for range all {
			id, err := h.cat(true)
			if err != nil {
				h.complain("a terminal too few: %v", err)
				continue
			}
			cats = append(cats, id)
		}
		for range 5 {
			_, err := h.cat(true)
			h.judge(err, "no terminal left")
		}
		pipes, err := h.cat(false)
		must(err)
		h.check(pipes, "no terminal left")
		for _, id := range append(cats, pipes) {
			h.check(id, "no terminal left")
			h.end(id)
		}
		h.settled(before, "few terminals")
	}
	h.finish("the fourth of %d terminals is refused (spawn_failed), pipes go on, and all can be used again", all)
}

// haveFullDisk works in a place where nothing can be written.
func haveFullDisk() {
	dir := os.Args[2]
	mount("tmpfs", dir, "tmpfs", "size=64k")
	must(os.Setenv("TMPDIR", dir))
	err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 1<<20), 0o600)
	if !errors.Is(err, syscall.ENOSPC) {
		must(fmt.Errorf("the disk is not full: %w", err))
	}
	h := startPoor()
	for _, tty := range []bool{false, true} {
		result, err := h.session.Exec(h.ctx, messages.ExecCommand{Argv: []string{self, os.Args[1], "4000000"}, Dir: dir, TTY: tty, Yield: new(messages.MaxYield),
			Environment: &messages.EnvironmentPolicy{Set: map[string]string{roleVariable: "flood"}}})
		if err != nil || result.Status != messages.StatusExited(0) || int64(len(result.Output))+result.Omitted != 4_000_000 {
			h.complain("a flood: %v", err)
		}
	}
	run, err := h.session.Run(h.ctx, messages.RunCommand{Argv: []string{"bash", "-c", `echo x >new`}, Dir: dir})
	if err != nil || run.ExitCode != 1 || !bytes.Contains(run.Stderr, []byte("No space left")) {
		h.complain("a command that needs the disk: %+v, %v", run, err)
	}
	if files, _ := os.ReadDir(dir); len(files) > 2 {
		h.complain("files are left: %v", files)
	}
	h.finish("commands run, and only they notice")
}

// mount mounts in the namespace of this process.
func mount(source, target, kind, data string) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		fmt.Println("SKIP: private mounts:", err)
		os.Exit(0)
	}
	if err := unix.Mount(source, target, kind, 0, data); err != nil {
		fmt.Printf("SKIP: mount %s: %v\n", kind, err)
		os.Exit(0)
	}
}

func TestScarcity(t *testing.T) {
	for _, role := range []string{"poor", "poor warden", "few terminals", "full disk"} {
		t.Run(role, func(t *testing.T) {
			ledger.enter(t)
			had := remember()
			token := newToken()
			dir := scratch(t, token)
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			command := exec.CommandContext(ctx, self, token, dir)
			command.Env = append(os.Environ(), roleVariable+"="+role)
			if role == "few terminals" || role == "full disk" {
				command.SysProcAttr = ownMounts()
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
			}
			output, err := command.CombinedOutput()
			text := string(output)
			switch _, why, skipped := strings.Cut(text, "SKIP: "); {
			case skipped:
				skip(t, strings.TrimSpace(why))
			case err != nil && text == "" && command.SysProcAttr != nil:
				skip(t, fmt.Sprintf("no namespaces: %v", err))
			}
			_, sum, _ := strings.Cut(text, "SUM: ")
			note(t, "%s", strings.TrimSpace(sum))
			if err != nil || strings.Contains(text, "WRONG") || sum == "" {
				t.Errorf("%v: %s", err, text[:min(len(text), 4000)])
			}
			if len(living(token)) > 0 {
				eventually(t, "everything ends", func() bool { return len(living(token)) == 0 })
			}
			had.nothingLeft(t, token)
		})
	}
}

// ownMounts asks for a mount namespace; an ordinary user gets it inside a user namespace.
func ownMounts() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attributes.Cloneflags |= syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return attributes
}
