package warden

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// restAfter is how long nothing happens before a warden rests.
	restAfter = 250 * time.Millisecond
	// restingFiles is how many bytes of its program's files a resting warden may have in memory before it gives them back. A
	// command needs half of that, and the rest of a warden is some 4 MiB.
	restingFiles = 7 << 19
	// restingHeap is how many bytes Go's heap may keep then, and treeHeap how many more for each tree. One or a few commands need less.
	restingHeap = 3 << 20
	treeHeap    = 8 << 10
	// mostDrops is how often in a row a warden gives back its program's files. On a busy machine other threads are still at work when it
	// does so, and bring some back.
	mostDrops = 4
)

// rest gives memory back. A warden is the host's program, of which it needs a small part; but the initialisers of the host's packages
// and the kernel, which maps 16 pages for each that is touched, have brought in more. What is needed again comes back from the page
// cache, in some 100 µs for the next command. So this is done only if it yields much. After many commands there are also threads without
// leaders, and garbage that Go would not look for until more is made.
func (w *warden) rest() {
	w.retire()
	w.mu.Lock()
	most := restingHeap + uint64(len(w.trees))*treeHeap
	w.mu.Unlock()
	if heap() > most { // Go gives back, in the background, what is free beyond what was in use before the last collection
		runtime.GC()
		runtime.GC()
	}
	if w.drops < mostDrops && residentFiles() > restingFiles {
		dropFiles()
		w.drops++
		return // and look again a little later
	}
	w.drops, w.rested = 0, true
	w.resting.Store(true)
}

// heap returns how many bytes of memory Go's heap uses or keeps.
func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapSys - m.HeapReleased
}

// disturb makes a warden that rests do so once more. It is called when a tree has ended: that is work of other threads, during
// which a spawning thread may have gone to rest.
func (w *warden) disturb() {
	if w.resting.CompareAndSwap(true, false) {
		w.poll.ring()
	}
}

// residentFiles returns how many bytes of files are in this process's memory; 0 if the kernel does not say.
func residentFiles() int {
	text, _ := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(text))
	if len(fields) < 3 {
		return 0
	}
	pages, _ := strconv.Atoi(fields[2])
	return pages * os.Getpagesize()
}

// dropFiles removes from memory all mappings that can be read again from their files: nobody can write to them, and they have no
// pages of their own, in memory or swapped out, such as a debugger's or the dynamic linker's.
func dropFiles() {
	text, _ := os.ReadFile("/proc/self/smaps")
	var from, to uint64 // of the mapping whose lines follow; to is 0 if it must stay
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "Anonymous:", "Swap:":
			if fields[1] != "0" {
				to = 0
			}
		case "VmFlags:": // the last line of a mapping
			if to != 0 {
				_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(from), uintptr(to-from), unix.MADV_DONTNEED)
			}
		default:
			if low, high, is := strings.Cut(fields[0], "-"); is {
				from, to = 0, 0
				if len(fields) > 5 && strings.HasPrefix(fields[5], "/") && !strings.Contains(fields[1], "w") {
					from, _ = strconv.ParseUint(low, 16, 64)
					to, _ = strconv.ParseUint(high, 16, 64)
				}
			}
		}
	}
}
