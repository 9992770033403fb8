package host

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func BenchmarkRead(b *testing.B) {
	r := newStateReader()
	defer r.close()
	for b.Loop() {
		r.read(false)
	}
}

func TestEachPartOfTheStateIsRead(t *testing.T) {
	r := newStateReader()
	defer r.close()
	now := r.read(false)
	for _, name := range namespaces {
		link, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil || !strings.Contains(now.rights, " "+link) {
			t.Errorf("no namespace %q in %q: %v", link, now.rights, err)
		}
	}
	for _, part := range []string{"CapPrm:", "NoNewPrivs:", " / "} {
		if !strings.Contains(now.rights, part) {
			t.Errorf("no %q in %q", part, now.rights)
		}
	}
	if now.rest == "" || r.read(false) != now {
		t.Errorf("%q", now.rest)
	}
}

func TestEveryRightCounts(t *testing.T) {
	const status = "Name:\tx\nUmask:\t0022\nUid:\t1\nGid:\t2\nFDSize:\t64\nGroups:\t3\nNStgid:\t4\nCapInh:\t0\nCapPrm:\t5\n" +
		"NoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t6\nSpeculation_Store_Bypass:\tx\n"
	rights := func(text string) string {
		file, err := os.Create(t.TempDir() + "/status")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
		r := newStateReader()
		defer r.close()
		own := r.status
		defer func() { r.status = own }()
		r.status = int(file.Fd())
		return r.read(false).rights
	}
	before := rights(status)
	for _, right := range []string{"Uid:\t1", "Gid:\t2", "Groups:\t3", "CapInh:\t0", "CapPrm:\t5", "NoNewPrivs:\t0", "Seccomp_filters:\t6"} {
		if rights(strings.Replace(status, right, right+"7", 1)) == before {
			t.Errorf("it makes no difference that %q has changed", right)
		}
	}
	if rights(strings.Replace(status, "NStgid:\t4", "NStgid:\t5", 1)) != before {
		t.Error("what gives no right counts")
	}
}

func TestTheRestIsReadAgainWhenItIsStale(t *testing.T) {
	r := newStateReader()
	defer r.close()
	now := r.read(false)
	r.found.rest, r.at = "another", r.at.Add(1<<40) // as if it had just been read
	if r.read(false).rest != "another" || r.read(true) != now {
		t.Error("it is not read when it should be, or it is when it need not be")
	}
}

// A user in many groups has a long status, and what gives rights comes after them.
func TestALongStatusIsReadToItsEnd(t *testing.T) {
	r := newStateReader()
	defer r.close()
	now := r.read(false)
	r.room = make([]byte, 16)
	if again := r.read(false); again != now {
		t.Errorf("%+v and then %+v", now, again)
	}
}

// A warden is replaced if the state differs. So what all threads read must be equal.
func TestEveryThreadReadsTheSame(t *testing.T) {
	one := newStateReader()
	defer one.close()
	now := one.read(true)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			runtime.LockOSThread() // and the thread ends with the goroutine
			r := newStateReader()
			defer r.close()
			if again := r.read(true); again != now {
				t.Errorf("%+v and then %+v", now, again)
			}
		})
	}
	all.Wait()
}

// A start is served by a look that began after it had asked, no matter for which start, and by no earlier look.
func TestOneLookServesTheStartsThatWaited(t *testing.T) {
	r := newStateReader()
	first, second := r.ask(), r.ask()
	found := r.since(first, false)
	if found.rights == "" {
		t.Fatal("nothing was read")
	}
	r.close() // from now on a look finds less
	if r.since(second, false) != found {
		t.Error("the second start looked although the first had, after both had asked")
	}
	if third := r.ask(); r.since(third, false) == found {
		t.Error("a start was served by a look from before it had asked")
	}
	if r.found = found; r.since(second, true) == found {
		t.Error("nothing was read anew though it was to be")
	}
}

// Two roots of one file system differ in the inode only.
func TestTheRootDirectoryCounts(t *testing.T) {
	r := newStateReader()
	defer r.close()
	var root unix.Stat_t
	if err := unix.Stat("/", &root); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf(" / %d %d ", root.Dev, root.Ino); !strings.Contains(r.read(false).rights, want) {
		t.Errorf("%q is not among the rights", want)
	}
}
