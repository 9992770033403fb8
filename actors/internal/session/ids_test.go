package session

import (
	"testing"

	"github.com/execbus/execbus/messages"
)

func TestIDsCountUpAndAreNotGivenTwice(t *testing.T) {
	for _, random := range []bool{false, true} {
		n, taken := ids{random: random}, map[messages.ProcessID]bool{}
		next := func() messages.ProcessID { return n.next(func(id messages.ProcessID) bool { return taken[id] }) }
		after := func(id messages.ProcessID) messages.ProcessID {
			if id++; id == endID {
				return firstID
			}
			return id
		}
		first := next()
		if first < firstID || first >= endID || !random && first != firstID {
			t.Errorf("the first id is %d", first)
		}
		second := after(first)
		taken[second], taken[after(second)] = true, true
		if got, want := next(), after(after(second)); got != want {
			t.Errorf("id %d after %d, want %d", got, first, want)
		}
		n.last = endID - 2
		if got := next(); got != endID-1 {
			t.Errorf("the last id is %d", got)
		}
		taken[firstID] = true
		if got := next(); got != firstID+1 && !taken[firstID+1] {
			t.Errorf("after the last id comes %d", got)
		}
	}
}
