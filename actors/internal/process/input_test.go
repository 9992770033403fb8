package process

import "testing"

// Writes that the child has not reported on count as taken.
func TestWritesWithoutAReportCount(t *testing.T) {
	half := make([]byte, maxAgain/2+1)
	for name, c := range map[string]struct {
		in   input
		want string
	}{
		"nothing":              {input{}, ""},
		"the end":              {input{sent: []*write{{finish: true}}}, ""},
		"a repeatable one":     {input{sent: []*write{{repeatable: true, bytes: half}}}, ""},
		"a caller's":           {input{sent: []*write{{bytes: half[:1]}}}, writtenTo},
		"together too much":    {input{sent: []*write{{repeatable: true, bytes: half}}, again: again{bytes: half}}, tooMuch},
		"before it too much":   {input{again: again{spent: tooMuch}}, tooMuch},
		"before it a caller's": {input{again: again{spent: writtenTo}, sent: []*write{{repeatable: true, bytes: half}}}, writtenTo},
	} {
		if got := c.in.spent(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
