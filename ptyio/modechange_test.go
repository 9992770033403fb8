//go:build linux

package ptyio

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
)

// A program may turn the echo off while input is written, and read all of that without having shown any. So the stricter of the two modes
// counts for the whole write.
//
// The master blocks in this test, and much more is written than the terminal has room for. The program reads nothing before it has changed
// the mode. So the first look sees the mode before, and the second one that after, however slow the machine is.
func TestTheStricterModeCountsIfItChangesDuringAWrite(t *testing.T) {
	for name, c := range map[string]struct {
		before, during string // arguments of stty
		want           messages.InputKind
	}{
		"a line, then a secret": {"icanon echo", "-echo", messages.InputSecret},
		"a line, then keys":     {"icanon echo", "-icanon", messages.InputKeys},
		"a secret, then a line": {"icanon -echo", "echo", messages.InputSecret},
		"keys, then a secret":   {"-icanon echo", "icanon -echo", messages.InputSecret},
		"keys, then a line":     {"-icanon echo", "icanon", messages.InputKeys},
	} {
		t.Run(name, func(t *testing.T) {
			master, slave, err := openPair()
			if err != nil {
				t.Fatal(err)
			}
			defer slave.Close()
			if err := unix.SetNonblock(master, false); err != nil {
				t.Fatal(err)
			}
			in := &input{file: os.NewFile(uintptr(master), "master"), terminal: true}
			defer in.file.Close()
			gate := readsAfter(t, slave, c.before, c.during)
			typed := []byte(strings.Repeat(strings.Repeat("x", 999)+"\n", 64)) // a terminal has room for 12 KiB
			took := make(chan Taken, 1)
			go func() {
				letNoSignalEndTheWrite()
				in.write(typed, time.Time{}, func(taken Taken, _ error) { took <- taken })
			}()
			if n, err := unix.Poll([]unix.PollFd{{Fd: int32(slave.Fd()), Events: unix.POLLIN}}, 30_000); n != 1 { // it is under way
				t.Fatalf("nothing was written: %v", err)
			}
			if len(took) > 0 {
				t.Fatal("the terminal had room for all of it")
			}
			_ = gate.Close()
			select {
			case taken := <-took:
				if want := []messages.InputRun{{Kind: c.want, Bytes: len(typed)}}; !slices.Equal(taken.Runs, want) {
					t.Errorf("%v, want %v", taken.Runs, want)
				}
			case <-time.After(30 * time.Second):
				t.Fatal("not all was read")
			}
		})
	}
}

// readsAfter sets the mode of a terminal, and starts a program that sets another one when the gate is closed, and then reads.
func readsAfter(t *testing.T, terminal *os.File, before, during string) (gate *os.File) {
	t.Helper()
	closed, gate, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer closed.Close()
	ready, told, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ready.Close()
	program := exec.Command("sh", "-c", "stty "+before+" && echo >&4 && exec 4>&-; read end <&3; stty "+during+"; exec cat >/dev/null")
	program.Stdin, program.ExtraFiles = terminal, []*os.File{closed, told}
	err = program.Start()
	_ = told.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = gate.Close()
		_ = program.Process.Kill()
		_ = program.Wait()
	})
	if n, _ := ready.Read(make([]byte, 1)); n != 1 {
		t.Fatal("stty has failed")
	}
	return gate
}

// letNoSignalEndTheWrite ends the thread with the goroutine that calls it, and blocks signals there: one of another child, say, would end a
// write early.
func letNoSignalEndTheWrite() {
	runtime.LockOSThread()
	var all unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &all, nil)
}
