package procs

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"testing"
)

// Whatever the size of the buffer, a file is read to its end.
func TestFilesAreReadWhole(t *testing.T) {
	for _, path := range []string{"/proc/self/mountinfo", "/proc/self/limits", "/proc/filesystems", "/proc/crypto", "/proc/iomem", "/proc/cpuinfo"} {
		want, err := os.ReadFile(path)
		if err != nil || len(want) == 0 {
			t.Logf("skipped: %s: %v", path, err)
			continue
		}
		for _, room := range []int{16, 512, shortRead, shortRead + 1, 4096, len(want), len(want) + 1} {
			if got, err := ReadFile(path, make([]byte, room)); err != nil || len(got) < len(want)*9/10 || path != "/proc/cpuinfo" && !bytes.Equal(got, want) {
				t.Errorf("%s with a buffer of %d bytes: %d bytes of %d, %v", path, room, len(got), len(want), err)
			}
		}
	}
}

// A small file costs one read: the kernel has said that it is the whole by returning less than there is room for.
func TestASmallFileIsReadOnce(t *testing.T) {
	reads := func() (n int) {
		text, err := os.ReadFile("/proc/thread-self/io")
		if err != nil {
			t.Skip("skipped: the system does not count the reads of a thread: ", err)
		}
		if _, err := fmt.Sscanf(string(text[bytes.Index(text, []byte("syscr:")):]), "syscr: %d", &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const times = 100
	var room [512]byte
	before := reads()
	for range times {
		if _, err := ReadFile("/proc/self/stat", room[:]); err != nil {
			t.Fatal(err)
		}
	}
	if n := reads() - before; n < times || n > times+10 { // those of the counts are in it
		t.Errorf("%d reads of %d files", n, times)
	}
}
