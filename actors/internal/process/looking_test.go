package process

import (
	"testing"
	"time"
)

// Looks at many processes fall into few moments, also if their distances differ a little, and none comes later than its distance.
func TestLooksComeTogether(t *testing.T) {
	now := time.Date(2000, 1, 1, 0, 0, 0, 123456789, time.UTC) // where the time of a test begins, long before this process
	for _, distance := range []time.Duration{0, time.Nanosecond, 2 * time.Nanosecond, firstLook, longestDistance, longestInCrowd} {
		moments := map[time.Time]bool{}
		for i := range 1000 {
			d := distance + distance/10*time.Duration(i%97)/97
			from := now.Add(distance * time.Duration(i) / 1000)
			due := together(from, d)
			if wait := due.Sub(from); wait > d || wait < d-d/atOnce {
				t.Fatalf("a look that is due in %s comes in %s", d, wait)
			}
			moments[due] = true
		}
		if len(moments) > 2*atOnce+4 { // the round times of a time as long as the distance
			t.Errorf("%s: %d moments for 1,000 looks", distance, len(moments))
		}
	}
}

// Looks that have come together stay together, whenever they begin.
func TestLooksAtACrowdMeet(t *testing.T) {
	for start := range 100 {
		now := time.Date(2026, 1, 1, 0, 0, 0, start*12345678, time.UTC)
		due, moments := make([]time.Time, 500), map[time.Time]bool{}
		for i := range due {
			due[i] = now.Add(2 * time.Duration(i) * time.Millisecond)
			for range 20 {
				late := time.Duration(i%7) * time.Millisecond // a look takes a while
				due[i] = together(due[i].Add(late), longestInCrowd)
			}
			moments[due[i]] = true
		}
		if len(moments) > 3*atOnce {
			t.Fatalf("start %d: %d moments after some looks at 500 processes", start, len(moments))
		}
	}
}

// looksIn counts the looks of some time, each of which costs the same.
func looksIn(l looking, lasts, cost time.Duration, crowd int) (looks int) {
	begin := l.since
	for now := begin; now.Sub(begin) < lasts; looks++ {
		now = l.next(now, crowd)
		l.pay(now, cost, crowd)
	}
	return looks
}

// The distance grows with the silence, and looks take a bounded part of one processor, as far as the longest distance allows.
func TestHowOftenIsLooked(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		what        string
		lasts, cost time.Duration
		looking     int
		least, most int
	}{
		{"one process", 20 * time.Millisecond, 0, 1, 15, 22},
		{"one process that costs much, at first", 40 * time.Millisecond, 400 * time.Microsecond, 1, 20, 26},
		{"one process that costs much", time.Second, 4 * time.Millisecond, 1, 11, 15},
		{"after a long time", 100 * time.Second, 0, 1, 400, 500},
		{"many processes", 10 * time.Second, 5 * time.Microsecond, 1000, 15, 20},
		{"many processes, for long", 100 * time.Second, 5 * time.Microsecond, 1000, 100, 125},
	} {
		if looks := looksIn(looking{since: now}, c.lasts, c.cost, c.looking); looks < c.least || looks > c.most {
			t.Errorf("%s: %d looks in %s, want %d to %d", c.what, looks, c.lasts, c.least, c.most)
		}
	}
}

// A program that prints all the time is not looked at more often than looks may cost.
func TestOutputDoesNotMakeLooksCostMore(t *testing.T) {
	begin := time.Now()
	l, looks := looking{since: begin}, 0
	for due, now := begin, begin; now.Sub(begin) < 10*time.Second; now = now.Add(time.Millisecond) {
		l.since = now
		if !now.Before(due) {
			looks++
			l.pay(now, time.Millisecond, 1)
			due = l.next(now, 1)
		}
	}
	if share := (10*time.Second + lookCredit) / lookShare / (time.Millisecond + handling); looks > int(share)+4 || looks < int(share)-4 {
		t.Errorf("%d looks of a millisecond each in ten seconds, want about %d", looks, share)
	}
}

// Looks that were not made give no more credit than there is at first.
func TestCreditForLooksIsBounded(t *testing.T) {
	now := time.Now()
	const lasts, cost = 200 * time.Millisecond, 4 * time.Millisecond
	fresh := looksIn(looking{since: now}, lasts, cost, 1)
	if rested := looksIn(looking{since: now, paid: now.Add(-time.Minute)}, lasts, cost, 1); rested > fresh {
		t.Errorf("%d looks after a minute without one, and %d at first", rested, fresh)
	}
}

// What looks at a crowd have cost does not put off those that come after the crowd for longer than a second.
func TestDebtForLooksIsBounded(t *testing.T) {
	now := time.Now()
	l := looking{}
	for range 100 {
		l.pay(now, maxCost, 10*crowd)
	}
	l.since = now.Add(longestInCrowd + firstLook)
	if wait := l.next(l.since, 1).Sub(l.since); wait > firstLook {
		t.Errorf("the first look is after %s", wait)
	}
}

// A look that had to wait for a processor makes the next ones hardly rarer; one that costs less counts at once.
func TestOneLateLookCostsLittle(t *testing.T) {
	const before = 80 * time.Microsecond
	for took, want := range map[time.Duration]time.Duration{maxCost: 90 * time.Microsecond, before / 2: before / 2} {
		if got := costOf(before, took); got != want {
			t.Errorf("%s after %s: %s, want %s", took, before, got, want)
		}
	}
	if got := costOf(0, time.Minute); got != maxCost {
		t.Errorf("the first takes a minute: %s", got)
	}
}
