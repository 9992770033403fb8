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
		m.look(m.begun.Load())
	}
}

func TestALookSeesEachPart(t *testing.T) {
	m := newMirror()
	defer m.close()
	now, rest := m.look(0)
	if now.credentials == "" || now.root[1] == 0 || rest == "" {
		t.Fatalf("%+v %q", now, rest)
	}
	for i, seen := range now.namespaces {
		if link, _ := os.Readlink("/proc/self/ns/" + namespaces[i]); link != seen {
			t.Errorf("namespace %s is %q and not %q", namespaces[i], seen, link)
		}
	}
	if again, _ := m.look(1); again != now {
		t.Errorf("%+v became %+v", now, again)
	}
}

// A warden is replaced if two looks differ. So the looks of all threads must be equal.
func TestEveryThreadSeesTheSame(t *testing.T) {
	m := newMirror()
	defer m.close()
	rights, rest := m.look(0)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			runtime.LockOSThread() // and the thread ends with the goroutine
			m.refresh()
			if again, also := m.look(m.begun.Load()); again != rights || also != rest {
				t.Errorf("%+v and then %+v; %q and then %q", rights, again, rest, also)
			}
		})
	}
	all.Wait()
}

func TestStartsOfTheSameTimeShareALook(t *testing.T) {
	m := newMirror()
	defer m.close()
	m.look(m.begun.Load())
	asked := m.begun.Load()
	for range 3 {
		m.look(asked)
	}
	if looks := m.begun.Load() - asked; looks != 1 {
		t.Errorf("%d looks for three starts that were asked for together", looks)
	}
	m.now.credentials = "another's"
	if now, _ := m.look(m.begun.Load()); now.credentials == "another's" {
		t.Error("a start that was asked for after a look got what that had found")
	}
}

func TestNamespacesAreLookedAtWhereTheyCanChange(t *testing.T) {
	status := func(permitted string) []byte { return []byte("Name:\tx\nCapPrm:\t" + permitted + "\nCapEff:\t0\n") }
	for permitted, movable := range map[string]bool{
		"000001ffffffffff": true, "0000000000200000": true, "000001ffffdfffff": false, "0000000000000000": false, "?": true,
	} {
		if canMove(status(permitted)) != movable {
			t.Errorf("%s: %v is expected", permitted, movable)
		}
	}
	m := newMirror()
	defer m.close()
	m.look(0)
	m.now.credentials, m.now.namespaces[0] = "somebody's who could", "another"
	if now, _ := m.look(m.begun.Load()); now.namespaces[0] == "another" {
		t.Error("rights were given up, and it was not looked what had been done with them")
	}
}
