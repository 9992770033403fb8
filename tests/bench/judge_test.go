package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/execbus/execbus/tests/harness"
)

// sampled makes one sample for each number.
func sampled(name string, numbers ...float64) (all []series) {
	for _, n := range numbers {
		all = append(all, series{name: {n}})
	}
	return all
}

func TestALimitIsKeptUpToItself(t *testing.T) {
	for _, test := range []struct {
		judge      judge
		limit      float64
		bare, ours float64
		verdict    string
		text       string
	}{
		{inform, 1, 10, 99, "-", "-"},
		{atMost, 1.5, 10, 15, kept, "≤ 1.50×"},
		{atMost, 1.5, 10, 15.1, missed, "≤ 1.50×"},
		{atLeast, 0.5, 10, 5, kept, "≥ 0.50×"},
		{atLeast, 0.5, 10, 4.9, missed, "≥ 0.50×"},
		{moreMost, 20, 10, 30, kept, "≤ 20.0 µs more"},
		{moreMost, 20, 10, 30.5, missed, "≤ 20.0 µs more"},
		{most, 20, 10, 20, kept, "≤ 20.0 µs"},
		{most, 20, 10, 20.5, missed, "≤ 20.0 µs"},
	} {
		l := metric{judge: test.judge, limit: test.limit}.condense("row", sampled("", test.bare), sampled("", test.ours))
		if l.Verdict != test.verdict || l.Limit != test.text || l.Bare != test.bare || l.Ours != test.ours || l.Ratio != test.ours/test.bare {
			t.Errorf("%s, %v beside %v: %+v, want %s", test.text, test.ours, test.bare, l, test.verdict)
		}
	}
}

func TestALineIsTheMedianOfTheSamples(t *testing.T) {
	l := metric{judge: atMost, limit: 2}.condense("row", sampled("", 10, 10, 20), sampled("", 10, 30, 20))
	if want := (line{Row: "row", Bare: 10, Ours: 20, Ratio: 1, Limit: "≤ 2.00×", Verdict: kept, Low: 1, High: 3}); l != want {
		t.Errorf("%+v, want %+v", l, want)
	}
	// A series that the bare way does not have is not compared.
	l = metric{of: "more", unit: pieces, judge: most, limit: 4}.condense("row", sampled("", 1, 1), sampled("more", 3, 5))
	if want := (line{Row: "row", Unit: pieces, Ours: 4, Limit: "≤ 4", Verdict: kept, Low: 3, High: 5}); l != want {
		t.Errorf("%+v, want %+v", l, want)
	}
}

func TestQuantiles(t *testing.T) {
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(100-i))
	}
	for _, test := range []struct {
		values []float64
		at     float64
		want   float64
	}{
		{nil, 0.5, 0}, {[]float64{7}, 0.5, 7}, {[]float64{7}, 0.99, 7}, {[]float64{3, 1, 2}, 0.5, 2}, {[]float64{4, 1, 3, 2}, 0.5, 2.5},
		{hundred, 0.99, 100}, {hundred, 0.5, 50.5}, {hundred, 0.25, 26}, {hundred, 1, 100},
	} {
		if got := harness.Quantile(test.values, test.at); got != test.want {
			t.Errorf("%v of %d values is %v, want %v", test.at, len(test.values), got, test.want)
		}
	}
	// A metric takes the median of each sample unless it says otherwise.
	sample := series{"": hundred}
	if (metric{}).quantile(sample) != 50.5 || tail.quantile(sample) != 100 {
		t.Errorf("%v, %v", (metric{}).quantile(sample), tail.quantile(sample))
	}
}

// A sample is so many turns of each way; there are at least three, or a single one in a process of its own.
func TestWaysTakeTurns(t *testing.T) {
	way := func(value float64) loop {
		return func(_ context.Context, took series) { took.add("", value) }
	}
	for _, test := range []struct {
		fresh   bool
		p       pair
		samples int
		turns   int
	}{
		{false, pair{bare: way(1), ours: way(2), turns: 4}, 3, 4},
		{false, pair{ours: way(2)}, 3, 1},
		{true, pair{bare: way(1), ours: way(2)}, 1, 1},
	} {
		all := row{fresh: test.fresh}.samples(t.Context(), &scope{bench: &bench{}}, test.p)
		for i, value := range []float64{2, 1} { // ours come first
			if i == 1 && test.p.bare == nil {
				if all[1] != nil {
					t.Errorf("%v of a way that there is not", all[1])
				}
				continue
			}
			if len(all[i]) != test.samples {
				t.Errorf("%d samples, want %d", len(all[i]), test.samples)
			}
			for _, one := range all[i] {
				if took := one[""]; len(took) != test.turns || took[0] != value {
					t.Errorf("a sample of %v, want %d times %v", took, test.turns, value)
				}
			}
		}
	}
}

func TestTheExitCodeSaysTheWorst(t *testing.T) {
	for want, lines := range map[int][]line{
		harness.ExitOK:     {{Verdict: kept}, {Verdict: "-"}},
		harness.ExitFailed: {{Verdict: kept}, {Verdict: unmeasured + "it hangs"}, {Verdict: kept}},
		harness.ExitBroken: {{Verdict: unmeasured + "it hangs"}, {Verdict: missed}, {Verdict: kept}},
	} {
		if got := exitCode(lines); got != want {
			t.Errorf("%+v: exit code %d, want %d", lines, got, want)
		}
	}
}

func TestTheTableShowsEveryLine(t *testing.T) {
	var table bytes.Buffer
	if err := writeTable(&table, []line{
		{Row: "one", Bare: 10, Ours: 15, Ratio: 1.5, Low: 1.4, High: 1.6, Limit: "≤ 2.00×", Verdict: kept},
		{Row: "two", Unit: pieces, Ours: 4, Low: 3, High: 5, Limit: "-", Verdict: "-"},
		{Row: "three", Verdict: unmeasured + "it hangs"},
	}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for text := range strings.Lines(table.String()) {
		got = append(got, strings.Join(strings.Fields(text), " "))
	}
	want := []string{"ROW BARE OURS RATIO SPREAD LIMIT VERDICT", "one 10.0 µs 15.0 µs 1.50× 1.40 – 1.60 ≤ 2.00× ok", "two - 4 - 3 – 5 - -",
		"three NOT MEASURED: it hangs"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q\nwant %q", got, want)
	}
}

func TestUsage(t *testing.T) {
	for _, test := range []struct {
		args string
		want string
		code int
	}{
		{"-help", "Usage: bench", harness.ExitOK},
		{"extra", `unexpected argument "extra"`, harness.ExitUsage},
		{"-time 0s", "use more than 0", harness.ExitUsage},
		{"-run (", "-run: error parsing", harness.ExitUsage},
		{"-run nothing-has-this-name", "matches no row", harness.ExitUsage},
		{"-list", "", harness.ExitOK},
	} {
		var out, progress bytes.Buffer
		if code := command.Execute(t.Context(), strings.Fields(test.args), &out, &progress); code != test.code {
			t.Errorf("%s: exit code %d, want %d", test.args, code, test.code)
		}
		if !strings.Contains(progress.String(), test.want) {
			t.Errorf("%s: does not say %q:\n%s", test.args, test.want, &progress)
		}
		if listed := strings.Count(out.String(), "\n"); test.args == "-list" && listed != len(rows()) {
			t.Errorf("%d rows are listed of %d", listed, len(rows()))
		}
		for _, r := range rows() {
			for _, m := range r.metrics {
				if limit := m.limitText(); test.args == "-list" && m.judge != inform && !strings.Contains(out.String(), limit) {
					t.Errorf("%s: the limit %q is not listed", r.name, limit)
				}
			}
		}
	}
}
