package sandbox

import (
	"testing"

	"github.com/execbus/execbus/sandbox/internal/confine"
)

// A directory that appears at the top of the file system can be read by later commands, too.
func TestWhatCanBeReadIsOpenedAgainWhenTheRootHasChanged(t *testing.T) {
	var r readable
	defer r.close()
	count := func() (rules int) {
		if err := r.use(func(everything, _ []confine.Allowed) error { rules = len(everything); return nil }); err != nil {
			t.Fatal(err)
		}
		return rules
	}
	all := count()
	lost := r.rules[all-1]
	r.rules = r.rules[:all-1]
	if some := count(); some != all-1 {
		t.Errorf("%d rules were opened again although nothing has changed", some)
	}
	r.rules = append(r.rules, lost)
	r.key.Mtim.Nsec++
	before := &r.rules[0]
	if again := count(); again != all || &r.rules[0] == before {
		t.Errorf("%d rules instead of %d, or the old ones", again, all)
	}
}
