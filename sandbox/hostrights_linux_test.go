package sandbox

import (
	"os"
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
