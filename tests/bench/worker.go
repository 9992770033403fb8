package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/execbus/execbus/tests/harness"
)

// workerFlag turns this program into a worker when it executes itself again. It is not for users.
const workerFlag = "-worker"

// workers are loops that need a process of their own, by name.
var workers = map[string]func(ctx context.Context, s *scope, with string) loop{
	"first": openFirst, "floods": openFloods, "heap": openHeap, "shells": openManyShells,
}

// writers are programs that print.
var writers = map[string]func(out io.Writer){"flood": writeFlood, "lines": writeLines}

// writer returns the command line of a writer or worker.
func writer(name, with string) []string {
	return []string{get(os.Executable()), workerFlag, name, with}
}

// apart is a loop in a process of its own, which runs it once for each line that it is sent. It ends at the end of its input, so
// also when the parent is gone.
func (s *scope) apart(ctx context.Context, name, with string) loop {
	argv := writer(name, with)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us; the worker ends with its input
	cmd.WaitDelay, cmd.Stderr = time.Minute, os.Stderr
	send := get(cmd.StdinPipe())
	cmd.Cancel = send.Close
	receive := json.NewDecoder(get(cmd.StdoutPipe()))
	must(cmd.Start())
	s.after(func() {
		_ = send.Close()
		_ = cmd.Wait()
	})
	return func(_ context.Context, took series) {
		get(fmt.Fprintln(send))
		var answer series
		if err := receive.Decode(&answer); errors.Is(err, io.EOF) {
			must(errors.New("the worker process failed; see above"))
		} else {
			must(err)
		}
		for name, values := range answer {
			took[name] = append(took[name], values...)
		}
	}
}

// fresh is a loop in a new process each time.
func fresh(name, with string) loop {
	return func(ctx context.Context, took series) {
		s := &scope{}
		defer s.end()
		s.apart(ctx, name, with)(ctx, took)
	}
}

// work is the main function of a worker. It handles no signals: that would cost a thread, and threads are counted.
func work(args []string) int {
	if len(args) != 2 {
		return harness.ExitUsage
	}
	if write := writers[args[0]]; write != nil {
		write(os.Stdout)
	} else if open := workers[args[0]]; open == nil {
		return harness.ExitUsage
	} else if err := serve(open, args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "bench worker:", err)
		return harness.ExitFailed
	}
	return harness.ExitOK
}

// serve runs the loop once for each line of the input. The end of the input ends the loop under way, too.
func serve(open func(context.Context, *scope, string) loop, with string) (err error) {
	defer failed(&err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	must(syscall.SetNonblock(0, true)) // a read that waits must not cost a thread
	input := os.NewFile(0, "requests")
	requests := make(chan struct{})
	go func() {
		defer cancel()
		for lines := bufio.NewScanner(input); lines.Scan(); {
			select {
			case requests <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	s := &scope{}
	defer s.end()
	run := open(ctx, s, with)
	for answers := json.NewEncoder(os.Stdout); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-requests:
		}
		took := series{}
		run(ctx, took)
		must(answers.Encode(took))
	}
}
