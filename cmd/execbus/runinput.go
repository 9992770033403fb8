package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// environment returns the caller's own environment, because the command is the caller's, too.
func environment() map[string]string {
	all := map[string]string{}
	for _, variable := range os.Environ() {
		if name, value, ok := strings.Cut(variable, "="); ok && name != "" {
			all[name] = value
		}
	}
	return all
}

// follow passes on input, signals and the size of the caller's window until the returned function is called. A second SIGTERM ends a
// command that has ignored the first.
func (o *order) follow(process *execbus.Process) (stop func()) {
	if o.terminal != nil && o.command().TTY {
		o.terminal.pass()
	}
	go o.feed(process)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGWINCH)
	done := make(chan struct{})
	go func() {
		ctx, terms := context.Background(), 0
		for {
			select {
			case sig := <-signals:
				if sig == syscall.SIGTERM {
					terms++
				}
				switch {
				case sig == syscall.SIGWINCH:
					_ = process.Resize(ctx, o.terminal.size()) // a command on pipes has no size
				case terms > 1:
					_, _ = process.Terminate(ctx) // an error means that it has ended
				default:
					_ = process.Signal(ctx, sig.(syscall.Signal))
				}
			case <-done:
				return
			}
		}
	}()
	return func() { signal.Stop(signals); close(done) }
}

// feed passes on the input and its end. It reads nothing while a question is open. What is not typed is given to another
// attempt again.
func (o *order) feed(process *execbus.Process) {
	var in io.Reader = o.std.in
	to := process.Repeatable()
	if o.terminal != nil {
		in, to = o.terminal, process
	}
	buffer := make([]byte, 16<<10)
	for {
		n, err := in.Read(buffer)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); errors.Is(err, messages.ErrUnknownProcess) {
				return
			}
		}
		if err != nil {
			_ = process.CloseStdin(context.Background())
			return
		}
	}
}
