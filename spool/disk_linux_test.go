package spool

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/execbus/execbus/messages"
)

// helper makes this program one that does something else; see helpers.
const helper = "EXECBUS_SPOOL_HELPER"

var helpers = map[string]func(dir string) error{"hold": hold, "full": full}

func init() {
	name, dir, found := strings.Cut(os.Getenv(helper), ":")
	if !found {
		return
	}
	if err := helpers[name](dir); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

func help(t *testing.T, name, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), helper+"="+name+":"+dir)
	return cmd
}

// hold keeps output until it is killed.
func hold(dir string) error {
	s, err := New(Options{Dir: dir})
	if err != nil {
		return err
	}
	if err := s.New().Write([]messages.OutputChunk{{Seq: 1, Stream: messages.StreamPTY, Bytes: []byte("of a host that is killed")}}, 0); err != nil {
		return err
	}
	fmt.Println("kept")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// A host that is killed leaves nothing, not even before the next one starts.
func TestAKilledHostLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "output")
	cmd := help(t, "hold", dir)
	in, _ := cmd.StdinPipe()
	out, err := cmd.StdoutPipe()
	if err = errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "kept\n" {
		t.Fatal(line, err)
	}
	if held, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", cmd.Process.Pid)); !holds(held, dir) {
		t.Fatal("it has no file in the directory")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it was not killed")
	}
	store(t, Options{Dir: dir})
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("%v, %v", names, err)
	}
}

func holds(descriptors []string, dir string) bool {
	for _, name := range descriptors {
		if target, err := os.Readlink(name); err == nil && strings.HasPrefix(target, dir+"/") {
			return true
		}
	}
	return false
}

// full fills a small file system, in a mount namespace of its own.
func full(dir string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m,mode=0700"); err != nil {
		return fmt.Errorf("cannot mount: %w", err)
	}
	s, err := New(Options{Dir: dir})
	if err != nil {
		return err
	}
	defer s.Close()
	f, seq, written := s.New(), uint64(0), int64(0)
	line := bytes.Repeat([]byte("0123456\n"), 1<<10)
	for err == nil {
		seq++
		if err = f.Write([]messages.OutputChunk{{Seq: seq, Offset: written, Stream: messages.StreamPTY, Bytes: line}}, written/8); err == nil {
			written += int64(len(line))
		}
	}
	if !errors.Is(err, syscall.ENOSPC) || written < 1<<20 {
		return fmt.Errorf("after %d bytes: %w", written, err)
	}
	ranges := f.Ranges()
	if len(ranges) != 1 || ranges[0].First != 0 || ranges[0].End != written {
		return fmt.Errorf("%d bytes were written, and kept are %v", written, ranges)
	}
	for at := int64(0); at < written; at += int64(len(line)) {
		chunks, err := f.chunks(at, len(line))
		if err != nil || len(chunks) != 1 || !bytes.Equal(chunks[0].Bytes, line) {
			return fmt.Errorf("at %d: %v", at, err)
		}
	}
	f.Close()
	s.closing.Wait()
	if err := s.New().Write([]messages.OutputChunk{{Seq: 1, Stream: messages.StreamPTY, Bytes: line}}, 0); err != nil {
		return fmt.Errorf("the room was not given back: %w", err)
	}
	return nil
}

// What was written before a disk was full can be read, and its room is there for others.
func TestAFullDiskKeepsWhatItHas(t *testing.T) {
	cmd := help(t, "full", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // it makes the mounts private
	if os.Geteuid() != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER}
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	said, err := cmd.CombinedOutput()
	switch _, exited := errors.AsType[*exec.ExitError](err); {
	case err != nil && !exited:
		t.Skipf("no mount namespace here: %v", err)
	case bytes.Contains(said, []byte("cannot mount")):
		t.Skipf("skipped: %s", said)
	case err != nil:
		t.Fatalf("%s", said)
	}
}
