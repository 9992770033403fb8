package main

import "fmt"

// judge compares quiet points with the first of them.
type judge struct {
	faults *faults
	points []sample // the first one is the baseline
	calm   int      // equal looks in a row, before there is a baseline
	last   sample
}

// calmWanted is how many looks must be equal to become the baseline.
const calmWanted = 6

// begin begins a quiet point.
func (j *judge) begin() { j.calm = 0 }

// limit returns the most that a quantity may be, and whether it is judged.
func (j *judge) limit(q quantity) (int64, bool) {
	switch f := facts[q]; {
	case f.rule == none:
		return 0, true
	case f.rule == shown || len(j.points) == 0:
		return 0, false
	default:
		return j.points[0].values[q] + f.slack, true
	}
}

// settled reports whether a look can stand for the quiet point: nothing is too high. The looks for the baseline must also
// have been equal several times in a row, so that it has nothing that is about to go away.
func (j *judge) settled(one sample) bool {
	if len(j.points) == 0 {
		same := true
		for q := range quantities {
			same = same && (facts[q].rule != exact || q == ptys || one.values[q] == j.last.values[q])
		}
		j.last = one
		if j.calm++; !same {
			j.calm = 0
		}
		if j.calm < calmWanted {
			return false
		}
	}
	return len(j.above(one)) == 0
}

// above returns the quantities that are too high.
func (j *judge) above(one sample) []quantity {
	var high []quantity
	for q := range quantities {
		if limit, judged := j.limit(q); judged && one.values[q] > limit {
			high = append(high, q)
		}
	}
	return high
}

// add ends a quiet point. It returns the quantities that have drifted further than at any point before.
func (j *judge) add(one sample) []quantity {
	var worse []quantity
	for _, q := range j.above(one) {
		worst := int64(0)
		for _, p := range j.points {
			worst = max(worst, p.values[q])
		}
		if one.values[q] > worst {
			limit, _ := j.limit(q)
			unit := facts[q].unit
			j.faults.add(fmt.Sprintf("quiet point %d", len(j.points)), "drift: %s %s, at most %s allowed", facts[q].name,
				unit.show(one.values[q]), unit.show(limit))
			worse = append(worse, q)
		}
	}
	j.points = append(j.points, one)
	return worse
}

// of returns the values of one quantity at all quiet points.
func (j *judge) of(q quantity) []int64 {
	values := make([]int64, len(j.points))
	for i, p := range j.points {
		values[i] = p.values[q]
	}
	return values
}
