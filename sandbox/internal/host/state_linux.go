package host

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox/internal/procs"
	"github.com/execbus/execbus/sandbox/internal/tree"
)

// A state directory has a file for each warden. It names the host, the warden, and the marks of its trees. The host holds an
// exclusive lock on the file while it lives. A forked copy of the host holds the lock, too, and then nothing is searched
// for.

const (
	entryPrefix = "warden-"
	newPrefix   = ".new-" // the prefix until the file is locked and complete
	entryFormat = "execbus 1\nboot %s\nspace %s\nhost %d %d\nwarden %d %d\nmarks %d %d %d\n"
	// maxEntry bounds how much of an entry is read.
	maxEntry = 4 << 10
)

// stateEntry is the file of a living warden.
type stateEntry struct {
	file *os.File
	path string
}

// life identifies a process within a boot.
type life struct {
	pid   int
	begun uint64
}

func (l life) alive() bool {
	begun, err := procs.Begun(l.pid)
	return err == nil && begun == l.begun
}

func (l life) kill() { _ = procs.Kill(l.pid, l.begun) }

// state is the content of an entry.
type state struct {
	boot, space  string // the boot and the pid namespace to which the numbers belong
	host, warden life
	marks        tree.Marks
}

func here() (boot, space string) {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, _ = os.Readlink("/proc/self/ns/pid")
	return strings.TrimSpace(string(id)), space
}

// checkStateDir makes the directory. No other user may have the right to write to it.
func checkStateDir(dir string) error {
	refused := func(detail string) error {
		return &messages.Error{Code: messages.ErrInvalidRequest, Op: "configure", Subject: "Options.StateDir", Detail: dir + ": " + detail,
			Hint: "name an absolute path to a directory of your own, in which nobody else can write"}
	}
	if !filepath.IsAbs(dir) {
		return refused("it is not absolute")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return refused(err.Error())
	}
	info, err := os.Stat(dir)
	if err != nil {
		return refused(err.Error())
	}
	if !ours(info) || info.Mode()&0o022 != 0 {
		return refused("others can write there")
	}
	return nil
}

func ours(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// noteState writes the entry of a warden. Without an entry, nothing ends the processes that are left if host and warden die
// together.
func noteState(dir string, warden int, marks tree.Marks) *stateEntry {
	if dir == "" {
		return nil
	}
	file, err := os.CreateTemp(dir, fmt.Sprintf("%s%d-", newPrefix, os.Getpid()))
	if err != nil {
		return nil
	}
	boot, space := here()
	hostBegun, _ := procs.Begun(os.Getpid())
	wardenBegun, _ := procs.Begun(warden)
	e := &stateEntry{file: file, path: filepath.Join(dir, entryPrefix+strings.TrimPrefix(filepath.Base(file.Name()), newPrefix))}
	_, err = fmt.Fprintf(file, entryFormat, boot, space, os.Getpid(), hostBegun, warden, wardenBegun, marks.Time, marks.Locks, marks.Nonce)
	if err == nil {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX)
	}
	if err == nil {
		err = os.Rename(file.Name(), e.path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		_ = file.Close()
		return nil
	}
	return e
}

// remove removes the entry of a warden of which nothing is left.
func (e *stateEntry) remove() {
	if e != nil {
		_ = os.Remove(e.path)
		_ = e.file.Close()
	}
}

// recoverState ends the processes that the dead runtimes of a state directory have left.
func recoverState(dir string, leave time.Duration, stop <-chan struct{}) (total messages.TreeReport) {
	begun, _ := filepath.Glob(filepath.Join(escaped(dir), newPrefix+"*"))
	for _, path := range begun { // a host died while it wrote
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(path), newPrefix+"%d-", &pid); err == nil && unix.Kill(pid, 0) == unix.ESRCH {
			_ = os.Remove(path)
		}
	}
	paths, _ := filepath.Glob(filepath.Join(escaped(dir), entryPrefix+"*"))
	for _, path := range paths {
		report := recoverEntry(path, leave, stop)
		total.Ended += report.Ended
		total.Survivors = append(total.Survivors, report.Survivors...)
	}
	return total
}

// escaped makes Glob take a directory's name literally.
func escaped(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// recoverEntry does nothing unless it gets the lock, which a living host holds.
func recoverEntry(path string, leave time.Duration, stop <-chan struct{}) messages.TreeReport {
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return messages.TreeReport{}
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !ours(info) || !info.Mode().IsRegular() || unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return messages.TreeReport{}
	}
	text := make([]byte, maxEntry)
	n, _ := file.ReadAt(text, 0)
	s, ok := parseState(string(bytes.TrimRight(text[:n], "\x00")))
	boot, space := here()
	switch {
	case !ok || s.boot != boot: // a power cut, or another boot: nothing lives
		_ = os.Remove(path)
	case s.space != space || s.host.alive():
	case s.leaves(leave, stop):
		report := treeReport(tree.EndMarked(s.marks, nil)[0])
		if len(report.Survivors) == 0 {
			_ = os.Remove(path)
		}
		return report
	}
	return messages.TreeReport{}
}

func parseState(text string) (s state, ok bool) {
	n, err := fmt.Sscanf(text, entryFormat, &s.boot, &s.space, &s.host.pid, &s.host.begun, &s.warden.pid, &s.warden.begun,
		&s.marks.Time, &s.marks.Locks, &s.marks.Nonce)
	return s, err == nil && n == 9
}

// leaves waits until the warden has ended its processes. A warden that has not done so in time never will, and is killed.
func (s state) leaves(most time.Duration, stop <-chan struct{}) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(most); s.warden.alive() && time.Now().Before(until); {
		select {
		case <-tick.C:
		case <-stop:
			return false
		}
	}
	s.warden.kill()
	return true
}
