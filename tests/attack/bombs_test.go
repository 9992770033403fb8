//go:build linux

package attack

import (
	"fmt"
	"io"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

const mebibyte = 1 << 20

// bombs are attempts to use more than a limit allows.
func bombs() []attack {
	memory, processes := messages.Limits{MemoryBytes: 256 * mebibyte}, messages.Limits{Processes: 60}
	return []attack{
		{name: "bomb: memory", limits: memory, act: func(places) error { return fill(-1, 512*mebibyte) }},
		{name: "bomb: memory in pieces", limits: memory, act: func(places) error {
			for range 512 {
				if err := fill(-1, mebibyte); err != nil {
					return err
				}
			}
			return nil
		}},
		{name: "bomb: memory of a file without a name", limits: memory, needGroup: true, act: func(places) error {
			fd, err := unix.MemfdCreate("bomb", 0)
			if err == nil {
				err = unix.Ftruncate(fd, 512*mebibyte)
			}
			if err != nil {
				return err
			}
			return fill(fd, 512*mebibyte)
		}},
		{name: "bomb: memory of many children", limits: memory, needGroup: true, act: func(places) error {
			return hold(16, func() *exec.Cmd { return exec.Command("/proc/self/exe", roleFill) })
		}},
		{name: "bomb: processes", limits: processes, act: func(places) error {
			return hold(400, func() *exec.Cmd { return exec.Command("sh", "-c", "echo; exec sleep 1000") })
		}},
		{name: "bomb: processes that leave the session", limits: processes, act: func(places) error {
			return hold(400, func() *exec.Cmd { return exec.Command("setsid", "sh", "-c", "echo; exec sleep 1000") })
		}},
	}
}

// fill maps this number of bytes and writes to each page.
func fill(fd, size int) error {
	kind := unix.MAP_SHARED
	if fd < 0 {
		kind = unix.MAP_PRIVATE | unix.MAP_ANON
	}
	memory, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, kind)
	if err != nil {
		return err
	}
	touch(memory)
	return nil
}

func touch(memory []byte) {
	for i := 0; i < len(memory); i += 4096 {
		memory[i]++
	}
}

// holdMemory is the role of a child that fills some memory, reports it, and keeps the memory.
func holdMemory() {
	if err := fill(-1, 48*mebibyte); err != nil {
		os.Exit(1)
	}
	fmt.Println()
	select {}
}

// hold starts this number of children. It succeeds if each has written a line while all are alive.
func hold(number int, command func() *exec.Cmd) error {
	lines, ready, err := os.Pipe()
	if err != nil {
		return err
	}
	for range number {
		child := command()
		child.Stdout = ready
		if err := child.Start(); err != nil {
			return err
		}
		defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	}
	_ = ready.Close()
	if n, err := io.ReadFull(lines, make([]byte, number)); err != nil {
		return fmt.Errorf("%d are ready, %v", n, err)
	}
	return nil
}
