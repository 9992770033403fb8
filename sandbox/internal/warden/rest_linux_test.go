package warden

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapFile maps a file that is full of 'f'. Mappings of a test that has ended vanish with it.
func mapFile(t *testing.T, protection, size int) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, bytes.Repeat([]byte{'f'}, size), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	memory, err := unix.Mmap(int(file.Fd()), 0, size, protection, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(memory) })
	return memory
}

// resident reports whether the first page of a mapping is in this process's memory.
func resident(t *testing.T, memory []byte) bool {
	t.Helper()
	file, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var entry [8]byte
	at := int64(uintptr(unsafe.Pointer(unsafe.SliceData(memory)))) / int64(os.Getpagesize()) * 8
	if _, err := file.ReadAt(entry[:], at); err != nil {
		t.Fatal(err)
	}
	return entry[7]&0x80 != 0
}

func TestFilesAreDroppedFromMemory(t *testing.T) {
	memory := mapFile(t, unix.PROT_READ, os.Getpagesize())
	if memory[0] != 'f' || !resident(t, memory) {
		t.Fatal("a page that was read is not in memory")
	}
	dropFiles()
	if resident(t, memory) {
		t.Error("the page is still in memory")
	}
	if memory[0] != 'f' {
		t.Error("the page does not come back")
	}
}

// A dynamic linker writes to pages and then protects them, and a debugger writes to the code.
func TestWhatWasWrittenIsNotDropped(t *testing.T) {
	memory := mapFile(t, unix.PROT_READ|unix.PROT_WRITE, os.Getpagesize())
	memory[0] = 'w'
	dropFiles()
	if memory[0] != 'w' {
		t.Error("a page that can be written was dropped")
	}
	if err := unix.Mprotect(memory, unix.PROT_READ); err != nil {
		t.Fatal(err)
	}
	dropFiles()
	if memory[0] != 'w' {
		t.Error("a page that was written and then protected was dropped")
	}
}

// Other threads may bring back at once what a warden gives back.
func TestAWardenLooksAgainAfterItHasGivenMemoryBack(t *testing.T) {
	memory, w := mapFile(t, unix.PROT_READ, 2*restingFiles), &warden{}
	for n := range mostDrops + 1 {
		if bytes.Count(memory, []byte{'f'}) != len(memory) {
			t.Fatal("a page does not come back")
		}
		w.rest()
		if last := n == mostDrops; w.rested != last || resident(t, memory) != last {
			t.Errorf("look %d: it rests: %v; the file is in memory: %v", n, w.rested, resident(t, memory))
		}
	}
}

func TestAWardenRestsOnceUntilSomethingHappens(t *testing.T) {
	w := &warden{poll: newTestPoll(t)}
	for !w.rested { // signals of the runtime interrupt a wait
		if events := w.wait(false); len(events) != 0 {
			t.Fatalf("it did not rest: %v", events)
		}
	}
	if events := w.wait(true); len(events) != 0 || !w.rested {
		t.Errorf("it does not rest any more, though nothing happened: %v", events)
	}
	rings := func() (events []unix.EpollEvent) {
		for len(events) == 0 {
			events = w.wait(false)
		}
		return events
	}
	w.disturb() // by the end of a tree
	w.disturb()
	if events := rings(); len(events) != 1 || w.rested || w.resting.Load() {
		t.Errorf("it still rests after %v", events)
	}
	if events := rings(); len(events) != 1 || w.rested { // the bell was not heard
		t.Errorf("it rests with %v to do", events)
	}
}
