//go:build linux

package sandbox_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// changes are the ways in which a host can change itself while it has a warden. It has a directory for them.
var changes = map[string]func(dir string){
	"user": func(string) {
		must(syscall.Setgroups(nil))
		must(syscall.Setresgid(65534, 65534, 65534))
		must(syscall.Setresuid(65534, 65534, 65534))
	},
	"no new privileges": func(string) { everywhere(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1) },
	"capabilities":      func(string) { everywhere(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, unix.CAP_NET_RAW) },
	"seccomp":           func(string) { deny(unix.SYS_SYNCFS) },
	"root":              func(dir string) { must(syscall.Chroot(dir)) },
	"namespace": func(string) {
		must(unix.Unshare(unix.CLONE_NEWUTS)) // of the main thread
		must(unix.Sethostname([]byte("changed")))
		space, err := os.Open("/proc/self/ns/uts")
		must(err)
		everywhere(unix.SYS_SETNS, space.Fd(), unix.CLONE_NEWUTS)
	},
	"cgroup": func(dir string) {
		must(os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0))
	},
	"umask": func(string) { syscall.Umask(0o27) },
	"limit": func(string) { must(unix.Setrlimit(unix.RLIMIT_MSGQUEUE, &unix.Rlimit{Cur: 7, Max: 7})) },
	"limit that marks trees": func(string) {
		must(unix.Setrlimit(unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: 1234567, Max: 7654321}))
	},
	"niceness": func(string) { everywhere(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, 7) },
	"affinity": func(string) {
		var first unix.CPUSet
		first.Set(0)
		everywhere(unix.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(first), uintptr(unsafe.Pointer(&first)))
	},
	"score of the OOM killer": func(string) { must(os.WriteFile("/proc/self/oom_score_adj", []byte("777"), 0)) },
}

// everywhere makes a system call on each thread, as a host does to change itself.
func everywhere(call uintptr, args ...uintptr) {
	all := append(args, 0, 0, 0, 0, 0)
	if _, _, errno := syscall.AllThreadsSyscall6(call, all[0], all[1], all[2], all[3], all[4], 0); errno != 0 {
		fmt.Println("not here:", errno)
		os.Exit(0)
	}
}

// deny makes the kernel refuse system calls to this process and its children, as profiles of containers do.
func deny(calls ...uint32) {
	const denied = 0x00050000 | uint32(unix.EPERM) // SECCOMP_RET_ERRNO
	const allowed = 0x7fff0000
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the number of the call
	for i, call := range calls {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jt: uint8(len(calls) - i)})
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: allowed}, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: denied})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	must(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	_, _, errno := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		fmt.Println("not here: no seccomp:", errno)
		os.Exit(0)
	}
}

// change is a host that changes itself between its commands.
func change() {
	spawner, err := sandbox.New(sandbox.Options{})
	must(err)
	spawn := func(argv ...string) (ptyio.Child, *recorder) {
		record := newRecorder()
		l := launch(false, argv...)
		l.Events = record.receive
		child, err := spawner.Spawn(context.Background(), l)
		must(err)
		return child, record
	}
	kept, keptRecord := spawn("cat")
	old := wardenAbove(kept.PID())
	changes[os.Getenv("CHANGE")](os.Getenv("DIR"))
	output := ""
	for said := false; !said; {
		if os.Getenv("LATER") == "" {
			spawner.(interface{ Refresh() }).Refresh()
		}
		_, record := spawn("bash", "-c", os.Getenv("SCRIPT"))
		record.untilTheEnd()
		output = record.output.String()
		said = os.Getenv("LATER") == "" || strings.Contains(output, os.Getenv("LATER"))
	}
	fmt.Printf("%q\n", output)
	if keptRecord.has(isExited) {
		fmt.Println("the first command has ended")
	}
	kept.EndTree(0)
	keptRecord.untilTheEnd()
	for _, alive := look(old); alive; _, alive = look(old) {
		time.Sleep(time.Millisecond)
	}
	must(spawner.Close())
	fmt.Println("the first warden has ended")
}

// asRoot returns the words that give a host rights on its command line. An ordinary user has them in a user namespace.
func asRoot(t *testing.T, more ...string) []string {
	t.Helper()
	words := append([]string{"unshare", "--mount"}, more...)
	if os.Geteuid() != 0 {
		words = append(words, "--user", "--map-root-user")
	}
	if out, err := exec.Command(words[0], append(words[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %v %s", err, out)
	}
	return words
}

// jail returns shell commands that make a directory which can be the root.
func jail(dir string) string {
	words := "set -e; cd " + dir + "; touch here; mkdir tmp; for i in bin lib lib64 usr proc dev etc; do [ ! -e /$i ] || { mkdir $i; mount --rbind /$i $i; }; done; "
	return words + `exec "$0"`
}

func TestCommandsAreAsTheHostIsWhenTheyStart(t *testing.T) {
	for _, c := range []struct{ change, script, want string }{
		{"user", "id -u; id -G", "65534\\n65534\\n"},
		{"no new privileges", "grep NoNewPrivs /proc/self/status", "NoNewPrivs:\\t1\\n"},
		{"capabilities", "grep CapBnd /proc/self/status", ""},
		{"seccomp", "sync -f / 2>&1 | grep -o 'not permitted'", "not permitted\\n"},
		{"root", "ls -d /here", "/here\\n"},
		{"namespace", "cat /proc/sys/kernel/hostname", "changed\\n"},
		{"cgroup", "grep -o changed-.* /proc/self/cgroup | head -1", ""},
		{"umask", "umask", "0027\\n"},
		{"limit", "ulimit -q", "7\\n"},
		{"limit that marks trees", "ulimit -SR; ulimit -HR", "1234567\\n7654321\\n"},
		{"niceness", "nice", "7\\n"},
		{"affinity", "nproc", "1\\n"},
		{"score of the OOM killer", "cat /proc/self/oom_score_adj", "777\\n"},
	} {
		t.Run(c.change, func(t *testing.T) {
			words, want := []string{self(t)}, c.want
			dir := t.TempDir()
			switch c.change {
			case "user":
				if os.Geteuid() != 0 {
					t.Skip("only root can become another")
				}
			case "capabilities":
				words = append(asRoot(t), words...)
				out, err := exec.Command(words[0], append(words[1:len(words)-1], "setpriv", "--bounding-set=-net_raw", "grep", "CapBnd", "/proc/self/status")...).Output()
				if err != nil {
					t.Skip("no program that drops capabilities: ", err)
				}
				want = strings.Trim(fmt.Sprintf("%q", out), `"`)
			case "root":
				words = append(asRoot(t), "sh", "-c", jail(dir), self(t))
			case "namespace":
				words = append(asRoot(t), words...)
			case "cgroup":
				dir = newCgroup(t)
				want = filepath.Base(dir) + "\\n"
			case "affinity":
				if runtime.NumCPU() < 2 {
					t.Skip("this machine has one processor")
				}
			}
			out, err := changed(words, "CHANGE="+c.change, "SCRIPT="+c.script, "DIR="+dir)
			if strings.Contains(out, "not here") {
				t.Skip(out)
			}
			if want := `"` + want + "\"\nthe first warden has ended\n"; err != nil || out != want {
				t.Errorf("%v %s instead of %s", err, out, want)
			}
		})
	}
}

// Without Refresh, a change of state that gives no rights is noticed after a second.
func TestWhatGivesNoRightsIsReadAgain(t *testing.T) {
	t.Parallel() // it waits most of the time
	out, err := changed([]string{self(t)}, "CHANGE=umask", "SCRIPT=umask", "LATER=0027")
	if err != nil || !strings.HasSuffix(out, "the first warden has ended\n") {
		t.Errorf("%v %s", err, out)
	}
}

func changed(words []string, env ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	host := exec.CommandContext(ctx, words[0], words[1:]...)
	host.Env = environment(append(env, roleVariable+"=changes")...)
	out, err := host.CombinedOutput()
	return string(out), err
}

// newCgroup makes a control group for a host, of the version that this machine has.
func newCgroup(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := unix.Mount("none", root, "cgroup2", 0, ""); err != nil {
		t.Skip("no cgroups here: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(root, 0) })
	dir := filepath.Join(root, "changed-"+newToken())
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Skip("no cgroups here: ", err)
	}
	t.Cleanup(func() { eventually(t, "the cgroup is empty", func() bool { return os.Remove(dir) == nil }) })
	return dir
}

func TestBlockedSignalsAreReset(t *testing.T) {
	for _, host := range [][]string{{"SPAWNER=warden"}, {"SPAWNER=direct"}, {"SPAWNER=direct", "REFUSED=1"}} {
		command := exec.Command(self(t))
		command.Env = environment(append(host, roleVariable+"=blocked", "SCRIPT=exec grep SigBlk /proc/self/status")...)
		out, err := command.CombinedOutput()
		if command.ProcessState != nil && command.ProcessState.ExitCode() == 98 {
			t.Logf("%s skipped: no seccomp here", host)
		} else if err != nil || !strings.Contains(string(out), `SigBlk:\t0000000000000000`) {
			t.Errorf("%s: %v %s", host, err, out)
		}
	}
}
