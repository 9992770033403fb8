package ptyio

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// open makes the descriptors of both sides. It returns the child's, which the caller must close once the child has them.
func (c *child) open(start *Start) (theirs []*os.File, err error) {
	if c.launch.TTY {
		theirs, err = c.openTerminal()
	} else {
		theirs, err = c.openPipes()
	}
	if err != nil {
		return theirs, err
	}
	for _, file := range theirs {
		blocking(file)
	}
	outputs := theirs[len(theirs)-len(c.streams):]
	start.Files = append(start.Files, theirs[0], outputs[0], outputs[len(outputs)-1])
	for _, in := range c.launch.Inherit {
		if err := control(in.File, func(int) error { return nil }); err != nil {
			return theirs, invalid("inherit", fmt.Sprintf("the file for descriptor %d is closed; keep it open until the program runs", in.FD), "")
		}
		blocking(in.File)
		for len(start.Files) <= in.FD {
			start.Files = append(start.Files, nil)
		}
		start.Files[in.FD] = in.File
	}
	c.undrained.Store(int32(len(c.streams)) + 1) // one more, for the leader's exit
	c.opened.Store(int32(len(c.streams)))
	return theirs, nil
}

// blocking puts a file back into blocking mode. Go puts every pipe and terminal that it opens into non-blocking mode. The
// mode belongs to the open file and not to a descriptor, so the child's reads and writes would fail with EAGAIN. Fd has the
// side effect that is needed.
func blocking(file *os.File) { _ = file.Fd() }

func (c *child) openTerminal() ([]*os.File, error) {
	master, slave, err := openPTY(c.launch.Size.OrDefault())
	if err != nil {
		return nil, openError("terminal", err)
	}
	c.terminal = newEnd(master)
	c.input = &input{file: c.terminal, terminal: true}
	if c.launch.Unattended {
		c.responder = &responder{input: c.input}
	}
	c.streams = []*stream{newStream(c, messages.StreamPTY, c.terminal, Credits)}
	c.stdin = inputFileOf(slave)
	return []*os.File{slave}, nil
}

// openPipes returns the child's ends: of its input, which is the null device if none was asked for, and of each stream.
func (c *child) openPipes() (theirs []*os.File, err error) {
	theirs = make([]*os.File, 0, 3)
	if c.launch.OpenStdin {
		write, read, err := openPipe(true)
		if err != nil {
			return nil, openError("stdin", err)
		}
		c.input = &input{file: newEnd(write)}
		c.stdin = inputFileOf(read)
		theirs = append(theirs, read)
	} else {
		null, err := openNull()
		if err != nil {
			return nil, openError("stdin", err)
		}
		c.input = &input{refusal: noInput}
		theirs = append(theirs, null)
	}
	names := []messages.Stream{messages.StreamStdout, messages.StreamStderr}
	if c.launch.Merged {
		names = names[:1]
	}
	c.streams = make([]*stream, 0, len(names))
	for _, name := range names {
		read, write, err := openPipe(false)
		if err != nil {
			return theirs, openError(string(name), err)
		}
		c.streams = append(c.streams, newStream(c, name, newEnd(read), Credits/len(names)))
		theirs = append(theirs, write)
	}
	return theirs, nil
}

func closeAll(files []*os.File) {
	for _, file := range files {
		_ = file.Close()
	}
}

// openError explains why the child's descriptors could not be made. An ENOENT in it does not concern the program.
func openError(what string, err error) error {
	return &messages.Error{Code: messages.ErrSpawnFailed, Op: "spawn", Subject: what, Detail: reason(err) + scarcity(err)}
}

// scarcity returns advice if something has run out.
func scarcity(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE):
		return "; the host has too many files open: raise its limit or end other commands"
	case errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.ENOSPC):
		return "; the system is short of processes, terminals or memory: end other commands"
	}
	return ""
}

// openPipe makes a pipe whose host's end does not block. os.Pipe would register both ends with Go's poller, and undoing that for
// the child's end takes a dozen system calls for each command.
func openPipe(hostWrites bool) (ours int, theirs *os.File, err error) {
	var fds [2]int
	if err := pipe2(fds[:]); err != nil {
		return -1, nil, err
	}
	ours, end := fds[0], fds[1]
	if hostWrites {
		ours, end = fds[1], fds[0]
	}
	if _, err := unix.FcntlInt(uintptr(ours), unix.F_SETFL, unix.O_NONBLOCK); err != nil {
		_, _ = unix.Close(ours), unix.Close(end)
		return -1, nil, os.NewSyscallError("fcntl", err)
	}
	return ours, os.NewFile(uintptr(end), "pipe"), nil
}

// openNull opens the null device, which cannot be on a poller.
func openNull() (*os.File, error) {
	fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: os.DevNull, Err: err}
	}
	return os.NewFile(uintptr(fd), os.DevNull), nil
}
