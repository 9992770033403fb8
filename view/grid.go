package view

// cell is one place of the grid.
type cell struct {
	// char is a character; zero: none was written here; or one of the marks below; or clusterBase and an index.
	char rune
	style
}

const (
	// covered is a place behind the first of a wide character or of a tab.
	covered rune = -1
	// clusterBase begins the numbers of characters with others that combine with them. No character has so high a number.
	clusterBase rune = 1 << 24
)

// blank reports whether there is nothing to see, but for a background.
func (c cell) blank() bool { return c.char == 0 || c.char == ' ' }

// row is a row of the grid.
type row struct {
	cells   []cell // those behind the last are empty, with the default style
	wrapped bool   // the text went on in the next row without the end of a line
}

// at returns a cell.
func (r *row) at(x int) cell {
	if x < len(r.cells) {
		return r.cells[x]
	}
	return cell{}
}

// reach makes the row at least n cells long.
func (r *row) reach(n int) {
	for len(r.cells) < n {
		r.cells = append(r.cells, cell{})
	}
}

// split makes sure that what is left of x and what is right of it have no character in common: one that has is removed.
func (r *row) split(x int) {
	if x >= len(r.cells) || r.cells[x].char != covered {
		return
	}
	for end := x; end < len(r.cells) && r.cells[end].char == covered; end++ {
		r.cells[end] = cell{}
	}
	for x--; x >= 0; x-- {
		lead := r.cells[x].char != covered
		r.cells[x] = cell{}
		if lead {
			return
		}
	}
}

// fill makes the cells from x to before end empty, with a background.
func (r *row) fill(x, end int, background colour) {
	r.split(x)
	r.split(end)
	if background == 0 && end >= len(r.cells) {
		r.cells = r.cells[:min(x, len(r.cells))]
		return
	}
	r.reach(end)
	for i := range r.cells[x:end] {
		r.cells[x+i] = cell{style: style{background: background}}
	}
}

// clear makes a row of so many columns empty.
func (r *row) clear(cols int, background colour) {
	r.cells, r.wrapped = r.cells[:0], false
	if background != 0 {
		r.fill(0, cols, background)
	}
}

// insert makes room for n cells at x; what is moved beyond the last column is gone.
func (r *row) insert(x, n, cols int, background colour) {
	r.split(x)
	r.split(cols - n)
	if x < len(r.cells) {
		r.reach(min(len(r.cells)+n, cols))
		copy(r.cells[x+n:], r.cells[x:])
	}
	r.fill(x, x+n, background)
}

// remove removes n cells at x.
func (r *row) remove(x, n, cols int, background colour) {
	r.split(x)
	r.split(x + n)
	if x < len(r.cells) {
		r.cells = append(r.cells[:x], r.cells[min(x+n, len(r.cells)):]...)
	}
	if background != 0 {
		r.fill(cols-n, cols, background)
	}
}

// scroll moves the rows one up, or one down; the one that comes free is returned, still with what it held.
func scroll(rows []row, up bool) *row {
	last := len(rows) - 1
	if up {
		first := rows[0]
		copy(rows, rows[1:])
		rows[last] = first
		return &rows[last]
	}
	first := rows[last]
	copy(rows[1:], rows)
	rows[0] = first
	return &rows[0]
}
