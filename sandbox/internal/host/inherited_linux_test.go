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
