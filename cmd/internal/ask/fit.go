package ask

import (
	"fmt"
	"unicode"

	"github.com/execbus/execbus/messages"
)

// fit cuts the longest lines in the middle until all fit into so many rows. If there are more lines than rows the last ones are counted
// instead.
func fit(lines []string, rows, columns int) []string {
	for most := rows; most > 0; most-- {
		shown := make([]string, len(lines))
		for i, line := range lines {
			shown[i] = shorten(line, most, columns)
		}
		if height(shown, columns) <= rows {
			return shown
		}
	}
	var shown []string
	for i, line := range lines {
		note := fmt.Sprintf("%d more lines are not shown; ? shows them.", len(lines)-i)
		next := append(shown[:i:i], shorten(line, 1, columns))
		if height(append(next[:i+1:i+1], note), columns) > rows && i > 2 { // the command is the third line
			return append(shown, note)
		}
		shown = next
	}
	return shown
}

// markWidth is the room for the mark of messages.CutMiddle.
const markWidth = 60

// shorten cuts a line in the middle so that it takes at most so many rows, if these have room for the mark.
func shorten(line string, rows, columns int) string {
	if width(line) <= rows*columns {
		return line
	}
	room := max(rows*columns-markWidth, 10)
	if width(line) > len(line) { // characters beyond ASCII take two columns
		room /= 2
	}
	return messages.CutMiddle(line, room)
}

// height is how many rows lines take.
func height(lines []string, columns int) (rows int) {
	for _, line := range lines {
		rows += max((width(line)+columns-1)/columns, 1)
	}
	return rows
}

// width is the most columns that a line can take.
func width(line string) (columns int) {
	for _, r := range line {
		if columns++; r > unicode.MaxASCII {
			columns++
		}
	}
	return columns
}
