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
	"strconv"
	"syscall"
	"time"
)

// workerFlag turns this program into a helper when it executes itself again. It is not for users.
const workerFlag = "-worker"

// helper is a process of its own, for measurements that need a clean one. It does one task for each number that it is sent.
// It ends at the end of its input, so also when the parent is gone.
type helper struct {
	cmd     *exec.Cmd
	send    io.WriteCloser
	receive *json.Decoder
}

func startHelper(ctx context.Context, args ...string) (*helper, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, append([]string{workerFlag}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us; the helper ends with its input
	cmd.WaitDelay = time.Minute
	cmd.Stderr = os.Stderr
	send, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	cmd.Cancel = send.Close
	receive, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &helper{cmd: cmd, send: send, receive: json.NewDecoder(receive)}, nil
}

// ask lets the helper do its task with n, and decodes the answer.
func (h *helper) ask(n int, answer any) error {
	if _, err := fmt.Fprintln(h.send, n); err != nil {
		return err
	}
	err := h.receive.Decode(answer)
	if errors.Is(err, io.EOF) {
		return errors.New("the helper process failed; see above")
	}
	return err
}

func (h *helper) close() {
	_ = h.send.Close()
	_ = h.cmd.Wait()
}

// work is the main function of a helper. It handles no signals: that would cost a thread, and threads are counted.
func work(args []string, out, progress io.Writer) int {
	if len(args) != 3 {
		return exitUsage
	}
	number, err := strconv.Atoi(args[1])
	if err != nil {
		return exitUsage
	}
	switch args[0] {
	case "flood":
		err = writeFlood(number, os.Stdout)
	case "heap":
		err = holdHeap(number, args[2], out)
	case "first":
		err = answerFirst(out)
	case "shells":
		err = answerShells(out)
	case "memory":
		err = answerMemory(number, args[2] == "slow", out)
	case "lines":
		err = printLines(time.Duration(number)*time.Millisecond, os.Stdout)
	default:
		return exitUsage
	}
	if err != nil {
		fmt.Fprintln(progress, "bench helper:", err)
		return exitUnmeasured
	}
	return exitKept
}

// serve answers one number after the other until the input ends, which also ends the task under way.
func serve(out io.Writer, task func(ctx context.Context, n int) (any, error)) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := syscall.SetNonblock(0, true); err != nil { // a read that waits must not cost a thread
		return err
	}
	input := os.NewFile(0, "requests")
	requests := make(chan int)
	go func() {
		defer cancel()
		lines := bufio.NewScanner(input)
		for lines.Scan() {
			n, err := strconv.Atoi(lines.Text())
			if err != nil {
				return
			}
			select {
			case requests <- n:
			case <-ctx.Done():
				return
			}
		}
	}()
	encoder := json.NewEncoder(out)
	for {
		select {
		case <-ctx.Done():
			return nil
		case n := <-requests:
			answer, err := task(ctx, n)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			if err := encoder.Encode(answer); err != nil {
				return err
			}
		}
	}
}
