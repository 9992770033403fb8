package main

import "fmt"

// maxEdits is how many letters a suggestion may differ by.
const maxEdits = 2

// didYouMean returns a suggestion of the name nearest to a wrong one, or nothing.
func didYouMean(wrong, prefix string, names []string) string {
	best, least := "", maxEdits+1
	for _, name := range names {
		if n := edits(wrong, name); n < least && n < len(name) {
			best, least = name, n
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s%s?", prefix, best)
}

// edits counts the letters to insert, remove or replace (Levenshtein's distance).
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j]+1, row[j+1]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
