//go:build amd64 || arm64

package seccomp

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
)

// confinedVariable makes this test binary the confined program; it names what to do.
const confinedVariable = "EXECBUS_TEST_CONFINED"

func TestMain(m *testing.M) {
	switch what := os.Getenv(confinedVariable); what {
	case "":
		os.Exit(m.Run())
	case "x86":
		callX86()
	default:
		bits, _ := strconv.Atoi(what)
		callAll(kinds()[bits])
	}
	os.Exit(0)
}

// callAll makes a call for each rule of the kind, and prints the results. The filter stops all of them.
func callAll(kind Kind) {
	rules := Rules(kind)
	for _, rule := range rules {
		c := matching(rule, -1)
		want := unix.Errno(meant(rules, c) & unix.SECCOMP_RET_DATA)
		_, _, errno := unix.RawSyscall6(uintptr(c.number), uintptr(c.args[0]), uintptr(c.args[1]), uintptr(c.args[2]),
			uintptr(c.args[3]), uintptr(c.args[4]), uintptr(c.args[5]))
		if errno != want {
			fmt.Printf("%s: %v instead of %v\n", rule.Name, errno, want)
		}
	}
	if runtime.GOARCH == "amd64" {
		if _, _, errno := unix.RawSyscall(firstMissing|unix.SYS_GETPID, 0, 0, 0); errno != unix.ENOSYS {
			fmt.Printf("getpid of x32: %v\n", errno)
		}
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		_, err = unix.Write(pair[0], []byte("x"))
	}
	fmt.Printf("done, %d rules, pair: %v\n", len(rules), err)
}

// callX86 makes getpid as a 32-bit program does.
func callX86() {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		fmt.Println(err)
		return
	}
	copy(page, []byte{0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3}) // mov eax, 20; int 0x80; ret
	entry := unsafe.Pointer(unsafe.SliceData(page))
	function := unsafe.Pointer(&entry)
	(*(*func())(unsafe.Pointer(&function)))()
	fmt.Println("came back")
}

// confined runs this binary under a filter.
func confined(t testing.TB, kind Kind, what string) (said string, status syscall.WaitStatus) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	out := int(write.Fd())
	steps := slices.Concat([]birth.Step{birth.NoNewPrivs(), birth.Seccomp(Filter(kind))}, birth.Files([]int{-1, out, out}),
		[]birth.Step{birth.Execve(self, []string{"confined"}, []string{confinedVariable + "=" + what, "GORACE=atexit_sleep_ms=0"})})
	pid, pidfd, err := birth.Start(steps)
	_ = write.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	text, err := io.ReadAll(read)
	if err != nil {
		t.Error(err)
	}
	for {
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != syscall.EINTR {
			return strings.TrimSpace(string(text)), status
		}
	}
}

func TestTheKernelDoesWhatTheRulesSay(t *testing.T) {
	for i, kind := range kinds() {
		said, status := confined(t, kind, strconv.Itoa(i))
		if status != 0 || !strings.HasPrefix(said, "done") || !strings.HasSuffix(said, "pair: <nil>") {
			t.Errorf("%+v: status %#x\n%s", kind, status, said)
		}
	}
}

func TestACallOfAnotherArchitectureKills(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("only amd64 has int 0x80")
	}
	if said, status := confined(t, Kind{}, "x86"); !status.Signaled() || status.Signal() != unix.SIGSYS {
		t.Errorf("status %#x: %s", status, said)
	}
}

// linear compiles the same list as one comparison after the other, for the benchmark.
func linear(rules []Rule) (filter []unix.SockFilter) {
	filter = slices.Clone(compile(nil)[:4])
	for _, s := range spans(rules) {
		if len(s.leaf) > 1 || s.leaf[0].K != unix.SECCOMP_RET_ALLOW {
			filter = append(filter, jump(unix.BPF_JEQ, s.first, 0, uint8(len(s.leaf))))
			filter = append(filter, s.leaf...)
		}
	}
	return append(filter, allowed()...)
}

// BenchmarkFilter measures what a filter costs at a start, and how many instructions a call runs through at most.
func BenchmarkFilter(b *testing.B) {
	rules := Rules(Kind{})
	for _, variant := range []struct {
		name   string
		filter []unix.SockFilter
	}{{"none", nil}, {"linear", linear(rules)}, {"tree", compile(rules)}} {
		b.Run(variant.name, func(b *testing.B) {
			steps := []birth.Step{birth.Execve("/bin/true", []string{"true"}, nil)}
			if variant.filter != nil {
				steps = slices.Insert(steps, 0, birth.NoNewPrivs(), birth.Seccomp(variant.filter))
			}
			for b.Loop() {
				pid, pidfd, err := birth.Start(steps)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = syscall.Wait4(pid, nil, 0, nil)
				_ = unix.Close(pidfd)
			}
			if variant.filter != nil {
				b.ReportMetric(float64(depth(variant.filter)), "instructions")
			}
		})
	}
}
