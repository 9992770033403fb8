package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/term"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// terminal is the caller's terminal. It is nil if the caller is on pipes.
type terminal struct {
	fd      int
	before  *term.State
	restore sync.Once
}

// attach passes the keys of the caller's terminal on unchanged. It returns nil if input or output is not a terminal.
func attach(std streams) *terminal {
	in, isFile := std.in.(*os.File)
	out, isFile2 := std.out.(*os.File)
	if !isFile || !isFile2 || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return nil
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil
	}
	return &terminal{fd: int(in.Fd()), before: before}
}

// detach restores the terminal.
func (t *terminal) detach() {
	if t != nil {
		t.restore.Do(func() { _ = term.Restore(t.fd, t.before) })
	}
}

func (t *terminal) size() messages.Size {
	if t == nil {
		return messages.Size{}
	}
	columns, rows, err := term.GetSize(t.fd)
	if err != nil {
		return messages.Size{}
	}
	return messages.Size{Rows: uint16(rows), Cols: uint16(columns)}
}

// follow keeps the command's terminal the size of the caller's until the returned function is called.
func (t *terminal) follow(process *execbus.Process) (stop func()) {
	if t == nil {
		return func() {}
	}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-changed:
				_ = process.Resize(context.Background(), t.size())
			case <-done:
				return
			}
		}
	}()
	return func() { signal.Stop(changed); close(done) }
}
