package session

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/execbus/execbus/messages"
)

// crowd makes candidates with the ids 1 to n, used in this order.
func crowd(n int, change func(c *candidate)) []candidate {
	var all []candidate
	for id := 1; id <= n; id++ {
		c := candidate{id: messages.ProcessID(id)}
		change(&c)
		all = append(all, c)
	}
	return all
}

func TestTheVictim(t *testing.T) {
	exited := func(ids ...messages.ProcessID) func(*candidate) {
		return func(c *candidate) { c.exited = slices.Contains(ids, c.id) }
	}
	busy := func(change func(*candidate), ids ...messages.ProcessID) func(*candidate) {
		return func(c *candidate) {
			change(c)
			c.busy = slices.Contains(ids, c.id)
		}
	}
	for _, test := range []struct {
		name      string
		all       []candidate
		protected int
		want      messages.ProcessID // zero for none
	}{
		{"an exited one that is not protected goes first", crowd(10, exited(2)), 8, 2},
		{"of several the least recently used", crowd(12, exited(2, 4)), 8, 2},
		{"none exited: the least recently used", crowd(10, exited()), 8, 1},
		{"exited but protected: the least recently used", crowd(10, exited(3, 10)), 8, 1},
		{"the least recently used is busy: the next", crowd(10, busy(exited(), 1)), 8, 2},
		{"all that are not protected are busy: none", crowd(10, busy(exited(), 1, 2)), 8, 0},
		{"an exited one is busy: no living one goes", crowd(10, busy(exited(1), 1)), 8, 0},
		{"an exited one is busy, another is not", crowd(12, busy(exited(1, 3), 1)), 8, 3},
		{"a protected exited one is busy: no reason to wait", crowd(10, busy(exited(9), 9)), 8, 1},
		{"all are protected", crowd(8, exited(1)), 8, 0},
		{"nobody is protected", crowd(1, exited()), 0, 1},
		{"nobody is there", nil, 8, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := victims(test.all, test.protected)
			if len(got) == 0 && test.want != 0 || len(got) > 0 && got[0] != test.want {
				t.Errorf("%d, want %d first", got, test.want)
			}
		})
	}
}

func TestPropertiesOfTheVictims(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		protected := rapid.IntRange(0, 10).Draw(t, "protected")
		all := crowd(rapid.IntRange(0, 30).Draw(t, "n"), func(c *candidate) {
			c.exited, c.busy = rapid.Bool().Draw(t, "exited"), rapid.Bool().Draw(t, "busy")
		})
		got := victims(all, protected)
		open := all[:max(len(all)-protected, 0)]
		waited := slices.ContainsFunc(open, func(c candidate) bool { return c.exited && c.busy })
		last := candidate{exited: true}
		for _, id := range got {
			at := slices.IndexFunc(open, func(c candidate) bool { return c.id == id })
			switch {
			case at < 0 || open[at].busy:
				t.Fatalf("%d is protected or busy", id)
			case !open[at].exited && waited:
				t.Fatalf("%d lives, and one that has exited was passed over", id)
			case open[at].exited && !last.exited || open[at].exited == last.exited && open[at].id < last.id:
				t.Fatalf("%d comes too late in %d", id, got)
			}
			last = open[at]
		}
		for _, c := range open {
			if !c.busy && (c.exited || !waited) && !slices.Contains(got, c.id) {
				t.Fatalf("%d could end, and is not among %d", c.id, got)
			}
		}
	})
}

func TestTheWarningIsTheKnownText(t *testing.T) {
	want := "The maximum number of unified exec processes you can keep open is 60 and you currently have 61 processes open. " +
		"Reuse older processes or close them to prevent automatic pruning of old processes"
	if got := warningText(60, 61); got != want {
		t.Errorf("%q", got)
	}
}
