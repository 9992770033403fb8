package execbus_test

import (
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/audit"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
)

// TestAConfinedCommandCannotChangeTheAuditLog, even if it is in a directory in its workspace.
func TestAConfinedCommandCannotChangeTheAuditLog(t *testing.T) {
	workspace := t.TempDir()
	dir := filepath.Join(workspace, "logs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "audit.jsonl")
	rt := newRuntime(t, execbus.Options{Audit: execbus.AuditOptions{File: file}})
	somebody := &person{}
	somebody.will(messages.DecisionApproved) // rm -f is asked about
	session := openSession(t, rt, execbus.SessionOptions{Dir: workspace, Approver: somebody, Sandbox: &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}})
	attacks := []string{
		"echo x >>%[1]s", "echo x >%[1]s", ": >|%[1]s", "truncate -s 0 %[1]s", "dd if=/dev/null of=%[1]s conv=notrunc", "dd if=/dev/zero of=%[1]s bs=1 count=1 conv=notrunc",
		"rm -f %[1]s", "mv %[1]s %[1]s.old", "mv other %[1]s", "ln -f other %[1]s", "ln -sf other %[1]s", "ln %[1]s logs/second && echo x >>logs/second", "cp other %[1]s",
		"chmod 666 %[1]s", "mv logs elsewhere", "rm -rf logs", "ln -sfn . logs && false",
		"exec 3<%[1]s && echo x >/proc/self/fd/3", "sed -i d %[1]s", "fallocate -p -o 0 -l 10 %[1]s",
	}
	script := "echo forged >other; touch here && echo here\n"
	for _, path := range []string{file, file + audit.HeadSuffix} {
		for i, attack := range attacks {
			if strings.Contains(attack, "%") {
				attack = fmt.Sprintf(attack, path)
			}
			script += fmt.Sprintf("if (%s) 2>/dev/null; then echo WON %d %s; fi\n", attack, i, filepath.Base(path))
		}
	}
	result, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"bash", "-c", script}, Yield: new(messages.MaxYield)})
	if refusal, is := errors.AsType[*messages.Error](err); is && refusal.Enforceable != "" {
		t.Skipf("skipped: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if said := string(result.Output); strings.Contains(said, "WON") || !strings.Contains(said, "here\n") {
		t.Errorf("of %d attacks: %s", len(attacks), said)
	}
	found := false
	for _, e := range entries(t, rt, file) {
		found = found || e.is(messages.KindExecStarted)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 || !found {
		t.Error(info, err, found)
	}
}

// onTmpfs makes this program a host in a mount namespace, whose log is on a small file system, in the mode that it names.
const onTmpfs = "EXECBUS_TEST_AUDIT_ON_TMPFS"

// TestAFullDiskUnderTheAuditLog: under stop nothing begins until there is room, and under drop everything goes on, is counted, and the log
// says so. In both modes what is written before and after can be verified.
func TestAFullDiskUnderTheAuditLog(t *testing.T) {
	if mode := os.Getenv(onTmpfs); mode != "" {
		fillUnderLog(t, audit.OnFull(mode))
		return
	}
	for _, mode := range []audit.OnFull{audit.Stop, audit.Drop} {
		t.Run(string(mode), func(t *testing.T) {
			dir := t.TempDir()
			host := osexec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAFullDiskUnderTheAuditLog$", "-test.v")
			host.Env = append(os.Environ(), onTmpfs+"="+string(mode))
			host.Dir = dir
			host.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
				UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}}
			out, err := host.CombinedOutput()
			switch {
			case len(out) == 0 && err != nil:
				t.Skipf("skipped: no namespace: %v", err)
			case strings.Contains(string(out), "--- SKIP"):
				t.Skipf("skipped: %s", out)
			case err != nil || !strings.Contains(string(out), "--- PASS"):
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// fillUnderLog fills the file system of a log, and makes room again.
func fillUnderLog(t *testing.T, mode audit.OnFull) {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=0700"); err != nil {
		t.Skip("no file system can be mounted:", err)
	}
	file := filepath.Join(dir, "audit.jsonl")
	rt := newRuntime(t, execbus.Options{Audit: execbus.AuditOptions{File: file, OnFull: mode}, Spawner: must(sandbox.New(sandbox.Options{Direct: true}))})
	session := openSession(t, rt, execbus.SessionOptions{Dir: "/"})
	notices := watch(t, session, execbus.Watch{Kinds: []messages.EventKind{messages.KindExecNotice}})
	one := func() error {
		_, err := session.Exec(patient(t), messages.ExecCommand{Argv: []string{"true", strings.Repeat("x", 1000)}})
		return err
	}
	ran := 0
	for ; ran < 100 && err == nil; ran++ {
		err = one()
	}
	if notice, err := notices.Next(patient(t)); err != nil || !strings.Contains(notice.(messages.ExecNotice).Text, "no space left on device") {
		t.Error(notice, err)
	}
	if r, err := audit.VerifyFile(file, nil); err != nil || r.State != audit.NotClosed {
		t.Error(r, err)
	}
	if mode == audit.Stop {
		if err == nil { // the last ones were faster than the log
			err = one()
		}
		ran--
		if !errors.Is(err, messages.ErrAuditFailed) || !strings.Contains(err.Error(), "no space left on device") {
			t.Fatal(err)
		}
		if _, err := session.Run(patient(t), messages.RunCommand{Argv: []string{"true"}}); !errors.Is(err, messages.ErrAuditFailed) {
			t.Error(err)
		}
		if _, err := session.Start(patient(t), messages.ExecCommand{Argv: []string{"true"}}); !errors.Is(err, messages.ErrAuditFailed) {
			t.Error(err)
		}
		if _, err := session.ApplyPatch(patient(t), messages.ApplyPatch{Text: "*** Begin Patch\n*** End Patch\n"}); !errors.Is(err, messages.ErrAuditFailed) {
			t.Error(err)
		}
	} else if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=8m,mode=0700"); err != nil {
		t.Fatal(err)
	}
	if notice, err := notices.Next(patient(t)); err != nil || !strings.Contains(notice.(messages.ExecNotice).Text, "can be written again") {
		t.Error(notice, err)
	}
	if err := one(); err != nil {
		t.Fatal(err)
	}
	ended := 0
	for _, e := range entries(t, rt, file) {
		if e.is(messages.KindExecEnded) {
			ended++
		}
	}
	if ended != ran+1 {
		t.Errorf("%d commands ran, and %d are in the log", ran+1, ended)
	}
}
