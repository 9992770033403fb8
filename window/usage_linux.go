package window

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// usage is what a tree of kernel processes uses.
type usage struct {
	cpu    int64 // hundredths of a second so far
	memory int64 // bytes that are resident now; pages that several share are counted for each
}

// stat is a kernel process.
type stat struct {
	parent, session int
	usage
}

// usages looks, once, what the trees of leaders use. A leader that did not descend from this process runs on another machine, and is not
// among the answers.
func usages(leaders map[int]bool) map[int]usage {
	all := map[int]stat{}
	if len(leaders) == 0 {
		return nil
	}
	names, _ := readNames("/proc")
	buffer := make([]byte, 1024) // the fields that are wanted are within
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		file, err := syscall.Open("/proc/"+name+"/stat", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			continue // it has ended
		}
		n, _ := syscall.Read(file, buffer)
		_ = syscall.Close(file)
		if s, ok := parseStat(buffer[:max(n, 0)]); ok {
			all[pid] = s
		}
	}
	found := map[int]usage{}
	for leader := range leaders {
		if _, lives := all[leader]; lives && climb(all, leader, func(pid int) bool { return pid == os.Getpid() }) != 0 {
			found[leader] = usage{}
		}
	}
	for pid, s := range all {
		owner := s.session // of a daemon whose parents have ended
		if above := climb(all, pid, func(pid int) bool { return leaders[pid] }); above != 0 {
			owner = above
		}
		if sum, ours := found[owner]; ours {
			found[owner] = usage{sum.cpu + s.cpu, sum.memory + s.memory}
		}
	}
	return found
}

func readNames(dir string) ([]string, error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return file.Readdirnames(-1)
}

// climb is the first of a process and its ancestors that is wanted; zero if none is.
func climb(all map[int]stat, pid int, wanted func(int) bool) int {
	for depth := 0; pid > 1 && depth < 1000; depth++ {
		if wanted(pid) {
			return pid
		}
		pid = all[pid].parent
	}
	return 0
}

// parseStat reads /proc/PID/stat: proc(5) counts its fields from 1, and the second, in parentheses, may contain anything.
func parseStat(text []byte) (s stat, ok bool) {
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 22 {
		return s, false
	}
	field := func(n int) int64 {
		v, _ := strconv.ParseInt(string(fields[n-3]), 10, 64)
		return v
	}
	s.parent, s.session = int(field(4)), int(field(6))
	s.cpu = field(14) + field(15) + field(16) + field(17) // its own, and those of children that it has waited for
	s.memory = field(24) * int64(os.Getpagesize())
	return s, true
}
