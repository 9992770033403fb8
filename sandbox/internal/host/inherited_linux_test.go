package host

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
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
	r.rest, r.at = "another", r.at.Add(1<<40) // as if it had just been read
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
