package sandbox

import (
	"os"
	"runtime"
	"sync"
	"testing"
)

func BenchmarkLook(b *testing.B) {
	m := newMirror()
	defer m.close()
	for b.Loop() {
		m.look()
	}
}

func TestALookSeesEachPart(t *testing.T) {
	m := newMirror()
	defer m.close()
	now, rest := m.look()
	if now.credentials == "" || now.root[1] == 0 || rest == "" {
		t.Fatalf("%+v %q", now, rest)
	}
	for i, seen := range now.namespaces {
		if link, _ := os.Readlink("/proc/self/ns/" + namespaces[i]); link != seen {
			t.Errorf("namespace %s is %q and not %q", namespaces[i], seen, link)
		}
	}
	if again, _ := m.look(); again != now {
		t.Errorf("%+v became %+v", now, again)
	}
}

// A warden is replaced where two looks differ, whichever threads they are made by.
func TestEveryThreadSeesTheSame(t *testing.T) {
	m := newMirror()
	defer m.close()
	rights, rest := m.look()
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			runtime.LockOSThread() // and the thread ends with the goroutine
			m.refresh()
			if again, also := m.look(); again != rights || also != rest {
				t.Errorf("%+v and then %+v; %q and then %q", rights, again, rest, also)
			}
		})
	}
	all.Wait()
}
