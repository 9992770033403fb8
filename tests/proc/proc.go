// Package proc tells tests what the kernel lists about processes, so that they need not ask the code that they test.
//
//	if p := proc.Look(pid); p.Alive() {
//		t.Errorf("its state is %c", p.State)
//	}
//
// It reads /proc, so it is for Linux: elsewhere no process is known.
//
// # What you must not assume
//
// That a process is still the same: its number may have passed to another one.
package proc

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// Process is what the kernel says about a process at one moment. The zero Process is that of no process.
type Process struct {
	Name       string // at most 15 bytes of it
	State      byte   // the kernel's letter, such as Z for a zombie
	Parent     int
	Foreground int    // the foreground group of its terminal; -1 if it has none
	Start      string // distinguishes it from a later process with the same number
}

// Look returns the process with a number, or the zero Process.
func Look(pid int) Process {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Process{}
	}
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')') // the name may have spaces and parentheses
	fields := strings.Fields(string(text[end+1:]))
	p := Process{Name: string(text[open+1 : end]), State: fields[0][0], Start: fields[19]}
	p.Parent, _ = strconv.Atoi(fields[1])
	p.Foreground, _ = strconv.Atoi(fields[5])
	return p
}

// All returns all processes by their numbers, without those that are gone meanwhile.
func All() map[int]Process {
	all := map[int]Process{}
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, _ := strconv.Atoi(entry.Name()) // 0 is the number of none
		if p := Look(pid); p.State != 0 {
			all[pid] = p
		}
	}
	return all
}

// Alive reports whether the process exists and has not ended. A zombie has ended.
func (p Process) Alive() bool { return p.State != 0 && p.State != 'Z' && p.State != 'X' }

// Arguments returns the command line of a process; nil if it has none, or there is no such process.
func Arguments(pid int) []string {
	line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if len(line) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
}

// Descriptors returns the descriptors of a process, each as its number and what it leads to.
func Descriptors(pid int) (found []string) {
	base := "/proc/" + strconv.Itoa(pid) + "/fd"
	entries, _ := os.ReadDir(base)
	for _, entry := range entries {
		target, err := os.Readlink(base + "/" + entry.Name())
		if err == nil && !strings.HasSuffix(target, "/fd") { // without the descriptor of the listing
			found = append(found, entry.Name()+" "+target)
		}
	}
	return found
}
