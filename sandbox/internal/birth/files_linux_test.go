package birth

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// table is the descriptors of a process: the file of each, and whether an execution closes it.
type table map[int]struct {
	what  int
	close bool
}

// follow does to the table what the kernel would do.
func (all table) follow(t *rapid.T, steps []Step) {
	for _, s := range steps {
		arg := func(i int) int { return int(s.call.args[i].(number)) }
		switch entry, open := all[arg(0)]; s.call.number {
		case unix.SYS_CLOSE:
			delete(all, arg(0))
		case unix.SYS_CLOSE_RANGE:
			for fd := range all {
				if fd >= arg(0) && fd <= arg(1) {
					delete(all, fd)
				}
			}
		case unix.SYS_FCNTL:
			entry.close = arg(1) == unix.F_SETFD && arg(2) == unix.FD_CLOEXEC
			all[arg(0)] = entry
		default:
			if !open || arg(0) == arg(1) {
				t.Fatalf("%s: EBADF or EINVAL", s.Name)
			}
			entry.close = arg(2) != 0
			all[arg(1)] = entry
		}
	}
}

func TestDescriptorsComeToTheirPlacesWhateverTheirNumbers(t *testing.T) {
	defer func(was func() bool) { closesRanges = was }(closesRanges)
	for _, can := range []bool{false, true} {
		closesRanges = func() bool { return can }
		comeToTheirPlaces(t, can, Files)
		comeToTheirPlaces(t, can, FewFiles)
	}
}

func comeToTheirPlaces(t *testing.T, alone bool, files func([]int) []Step) {
	rapid.Check(t, func(t *rapid.T) {
		fds := rapid.SliceOfN(rapid.IntRange(-1, 12), 0, 10).Draw(t, "fds")
		all := table{}
		for fd := range 13 {
			all[fd] = struct {
				what  int
				close bool
			}{fd, fd%2 == 0}
		}
		all.follow(t, files(slices.Clone(fds)))
		for i := range max(3, len(fds)) {
			entry, open := all[i]
			if i >= len(fds) || fds[i] < 0 {
				if open {
					t.Fatalf("%d is open", i)
				}
			} else if !open || entry.close || entry.what != fds[i] {
				t.Fatalf("%d is %+v", i, entry)
			}
		}
		if left := slices.Max(append(slices.Collect(maps.Keys(all)), -1)); alone && left >= max(3, len(fds)) {
			t.Fatalf("%d is left", left)
		}
	})
}

func TestDescriptorsChangePlaces(t *testing.T) {
	var pipes [3]struct{ read, write *os.File }
	for i := range pipes {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		pipes[i].read, pipes[i].write = read, write
		defer read.Close()
		defer write.Close()
	}
	// n is the highest of the three descriptors. fds puts each of them at the number of its neighbour, in a circle.
	place := func(i int) int { return int(pipes[i%3].write.Fd()) }
	fds := slices.Repeat([]int{-1}, place(2)+1)
	script := ""
	for i := range pipes {
		fds[place(i)] = place(i + 1)
		script += "echo " + strconv.Itoa(i) + " >/proc/self/fd/" + strconv.Itoa(place(i)) + ";"
	}
	pid, pidfd, err := Start(append(Files(fds), shell(script)))
	if err != nil {
		t.Fatal(err)
	}
	if status := reap(t, pid, pidfd); status != 0 {
		t.Errorf("status %#x", status)
	}
	for i := range pipes {
		text := make([]byte, 10)
		n, _ := pipes[(i+1)%3].read.Read(text)
		if strings.TrimSpace(string(text[:n])) != strconv.Itoa(i) {
			t.Errorf("%d: %q", i, text[:n])
		}
	}
}
