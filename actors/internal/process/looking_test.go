package process

import (
	"testing"
	"time"
)

// Looks at many processes fall into few moments, and none comes later than its distance.
func TestLooksComeTogether(t *testing.T) {
	now := time.Now()
	for _, distance := range []time.Duration{0, time.Nanosecond, firstLook, longestDistance, longestInCrowd} {
		moments := map[time.Time]bool{}
		for i := range 1000 {
			from := now.Add(distance * time.Duration(i) / 1000)
			due := next(from, distance)
			if wait := due.Sub(from); wait > distance || wait < distance-distance/atOnce {
				t.Fatalf("a look that is due in %s comes in %s", distance, wait)
			}
			moments[due] = true
		}
		if len(moments) > atOnce+2 {
			t.Errorf("%s: %d moments for 1,000 looks", distance, len(moments))
		}
	}
}

// Looks take a bounded part of one processor, as far as the longest distance allows.
func TestTheDistanceGrowsWithWhatLooksCost(t *testing.T) {
	now := time.Now()
	silent := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, c := range []struct {
		l       looking
		looking int
		want    time.Duration
	}{
		{looking{since: now}, 1, firstLook},
		{looking{since: silent(100 * time.Millisecond)}, 1, 10 * time.Millisecond},
		{looking{since: silent(time.Minute)}, crowd, longestDistance},
		{looking{since: silent(time.Minute)}, crowd + 1, longestInCrowd},
		{looking{since: now}, 10, 10 * handling * lookShare},
		{looking{since: now, cost: handling}, 10, 20 * handling * lookShare},
		{looking{since: now, cost: maxCost}, crowd + 1, longestInCrowd},
	} {
		if got := c.l.distance(now, c.looking); got != c.want {
			t.Errorf("%s after %s, %d looked at: %s, want %s", c.l.cost, now.Sub(c.l.since), c.looking, got, c.want)
		}
	}
}
