package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bareRole makes this test binary run as execbus on a machine that can confine nothing.
const bareRole = "execbus on a bare machine"

func init() {
	if os.Getenv(roleVariable) != bareRole {
		return
	}
	if err := refuse(unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_MOUNT_SETATTR); err != nil {
		fmt.Fprintln(os.Stderr, "not here:", err)
		os.Exit(0)
	}
	_ = os.Unsetenv(roleVariable)
	main()
}

// refuse makes the kernel refuse system calls to this process and its children.
func refuse(calls ...uint32) error {
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the number of the call
	for i, call := range calls {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jt: uint8(len(calls) - i)})
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}

// nothingConfinable skips a test if no such machine can be made here.
func nothingConfinable(t *testing.T) {
	t.Helper()
	r := launchAs(t, bareRole, "doctor")
	text := ""
	for r.out.Scan() {
		text += r.out.Text() + "\n"
	}
	if code := r.wait(); code != exitFailed || !strings.Contains(text, "The strongest level here: none") {
		t.Skipf("skipped: no machine without confinement can be made here: %d, %s%s", code, text, r.errors.String())
	}
}

// The server says at its start, and in the answer, that nothing can be confined and which setting accepts less. With that setting
// the command runs.
func TestMCPRunsNothingUnconfinedByItself(t *testing.T) {
	nothingConfinable(t)
	file := filepath.Join(t.TempDir(), "file")
	r := launchAs(t, bareRole, "mcp")
	r.send(hello)
	r.answer("1")
	answer := r.exec(2, "echo x > "+file)
	for _, word := range []string{`"isError":true`, "restriction of files", "landlock_create_ruleset", "--assurance none"} {
		if !strings.Contains(answer, word) {
			t.Errorf("%q is not in the answer %s", word, answer)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the command ran")
	}
	_ = r.in.Close()
	if code := r.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, word := range []string{"every command will be refused", "landlock_create_ruleset", "execbus doctor", "--assurance none accepts less"} {
		if !strings.Contains(r.errors.String(), word) {
			t.Errorf("%q is not on standard error: %s", word, r.errors.String())
		}
	}
	for _, less := range [][]string{{"--assurance", "none"}, {"--sandbox", "danger-full-access"}} {
		_ = os.Remove(file)
		r := launchAs(t, bareRole, append([]string{"mcp"}, less...)...)
		r.send(hello)
		r.answer("1")
		answer := r.exec(2, "echo x > "+file)
		if _, err := os.Stat(file); err != nil {
			t.Errorf("with %q the command did not run: %s", less, answer)
		}
		_ = r.in.Close()
		if code := r.wait(); code != 0 || r.errors.Len() > 0 {
			t.Errorf("with %q: exit code %d, %s", less, code, r.errors.String())
		}
	}
}

func TestRunNamesTheOneAssuranceThatAcceptsLess(t *testing.T) {
	nothingConfinable(t)
	r := launchAs(t, bareRole, "run", "--", "true")
	if code := r.wait(); code != exitRefused || !strings.Contains(r.errors.String(), "; --assurance none accepts less\n") {
		t.Errorf("%d, %s", code, r.errors.String())
	}
}

// A server that cannot confine as it was told does not serve.
func TestServeDoesNotServeUnconfinedByItself(t *testing.T) {
	nothingConfinable(t)
	r := launchAs(t, bareRole, "serve", "--listen", "stdio", "--sandbox", "workspace-write")
	if code := r.wait(); code != exitFailed || !strings.Contains(r.errors.String(), "restriction of files") || !strings.Contains(r.errors.String(), "--assurance none accepts less\n") {
		t.Errorf("%d, %s", code, r.errors.String())
	}
}
