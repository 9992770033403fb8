package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// probe looks at the terminal of a command through /proc. It keeps nothing open, because a terminal hangs up only when the last
// process that has it open is gone.
type probe struct {
	leader int
	path   string // of the terminal
}

// newProbe finds the terminal of a leader. It returns nil if there is none.
func newProbe(leader int) *probe {
	_, device, _, known := terminalOf(leader)
	major, minor := unix.Major(device), unix.Minor(device)
	if !known || major < 136 || major > 143 { // Unix98 pseudo-terminals
		return nil
	}
	return &probe{leader, fmt.Sprintf("/dev/pts/%d", (major-136)*256+minor)}
}

// look returns the state of the terminal, and whether a program reads it.
func (p *probe) look() ttyState {
	s := p.modes()
	if s.known && s.reading { // no input is pending
		s.reading, s.known = p.reads()
	}
	return s
}

// modes is the cheap part of look. Its field reading says only that no input is pending.
func (p *probe) modes() ttyState {
	fd, err := unix.Open(p.path, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return ttyState{}
	}
	defer unix.Close(fd)
	modes, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return ttyState{}
	}
	waiting, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	return ttyState{known: true, reading: err == nil && waiting == 0, raw: modes.Lflag&unix.ICANON == 0,
		hidden: modes.Lflag&unix.ICANON != 0 && modes.Lflag&unix.ECHO == 0}
}

// reads reports whether a thread of the terminal's foreground group sleeps until it can read from the terminal. known is
// false if the demo may not look.
func (p *probe) reads() (reads, known bool) {
	_, _, foreground, known := terminalOf(p.leader)
	if !known {
		return false, false
	}
	for _, pid := range descendants(p.leader) {
		if group, _, _, alive := terminalOf(pid); !alive || group != foreground {
			continue
		}
		calls, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
		for _, call := range calls {
			text, err := os.ReadFile(call)
			switch {
			case os.IsPermission(err):
				return true, false
			case err == nil && p.waitsFor(pid, strings.Fields(string(text))):
				return true, true
			}
		}
	}
	return false, true
}

// waitsFor interprets a line of /proc/PID/task/TID/syscall, which has the number and the arguments of the call that a thread
// sleeps in.
func (p *probe) waitsFor(pid int, call []string) bool {
	if len(call) < 7 {
		return false // the thread is running
	}
	var a [7]uint64
	for i := range a {
		a[i], _ = strconv.ParseUint(call[i], 0, 64)
	}
	switch number := int(a[0]); {
	case number == unix.SYS_READ || number == unix.SYS_READV:
		return p.isTerminal(pid, a[1])
	case slices.Contains(polls, number):
		return p.polled(pid, a[1], a[2])
	case slices.Contains(selects, number):
		return p.selected(pid, a[1], a[2])
	case slices.Contains(epolls, number):
		return p.watched(pid, a[1])
	default:
		return false
	}
}

func (p *probe) isTerminal(pid int, fd uint64) bool {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
	return err == nil && (path == p.path || path == "/dev/tty")
}

// most bounds the part of a descriptor list that is looked at.
const most = 1024

// polled looks through the list of a poll. A list that cannot be read may contain the terminal.
func (p *probe) polled(pid int, list, length uint64) bool {
	const size, events = 8, 4 // struct pollfd
	entries, ok := memory(pid, list, min(length, most)*size)
	for ; ok && len(entries) >= size; entries = entries[size:] {
		fd := binary.NativeEndian.Uint32(entries)
		if binary.NativeEndian.Uint16(entries[events:])&unix.POLLIN != 0 && p.isTerminal(pid, uint64(fd)) {
			return true
		}
	}
	return !ok
}

// selected looks through the bit set of a select.
func (p *probe) selected(pid int, length, set uint64) bool {
	if set == 0 {
		return false
	}
	bits, ok := memory(pid, set, (min(length, most)+7)/8)
	for fd := range uint64(len(bits)) * 8 {
		if fd < length && bits[fd/8]&(1<<(fd%8)) != 0 && p.isTerminal(pid, fd) {
			return true
		}
	}
	return !ok
}

// watched looks through the descriptors that an epoll instance watches.
func (p *probe) watched(pid int, fd uint64) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", pid, fd))
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "tfd:" {
			if target, err := strconv.ParseUint(words[1], 10, 32); err == nil && p.isTerminal(pid, target) {
				return true
			}
		}
	}
	return false
}

// memory reads the memory of another process.
func memory(pid int, from, length uint64) ([]byte, bool) {
	if length == 0 {
		return nil, true
	}
	p := make([]byte, length)
	local := []unix.Iovec{{Base: &p[0]}}
	local[0].SetLen(len(p))
	n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(from), Len: len(p)}}, 0)
	return p[:max(n, 0)], err == nil
}

// living reports whether a process has not exited.
func living(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return unix.Kill(pid, 0) != unix.ESRCH
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	return len(fields) == 0 || !bytes.ContainsAny(fields[0], "ZX")
}

// terminalOf returns a process's group, the device of its terminal, and the terminal's foreground group.
func terminalOf(pid int) (group int, device uint64, foreground int, known bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if err != nil || len(fields) < 6 {
		return 0, 0, 0, false
	}
	group, _ = strconv.Atoi(fields[2])
	number, _ := strconv.ParseInt(fields[4], 10, 32)
	foreground, _ = strconv.Atoi(fields[5])
	return group, unix.Mkdev(uint32(number>>8)&0xfff, uint32(number)&0xff|uint32(number>>12)&0xfff00), foreground, true
}

// descendants returns a process and its descendants, at most 256.
func descendants(pid int) []int {
	all := []int{pid}
	for i := 0; i < len(all) && len(all) < 256; i++ {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", all[i]))
		for _, list := range lists {
			text, _ := os.ReadFile(list)
			for _, word := range strings.Fields(string(text)) {
				if child, err := strconv.Atoi(word); err == nil {
					all = append(all, child)
				}
			}
		}
	}
	return all
}
