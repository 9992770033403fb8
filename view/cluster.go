package view

import "unicode/utf8"

// clusters are characters with others that combine with them, each once. The terminal removes those that it does not show any more.
type clusters struct {
	texts []string
	index map[string]rune
	limit int // how many there may be before the terminal looks which it shows; zero: spareClusters
}

const (
	// maxCluster bounds a character with all that combines with it, in bytes; more is left out. tmux has the same bound.
	maxCluster = 21
	// spareClusters is how many clusters there may be, at least, before the terminal looks which it shows.
	spareClusters = 1024
)

func (c *clusters) full() bool { return len(c.texts) >= max(c.limit, spareClusters) }

// join returns what stands for a character and one that combines with it.
func (c *clusters) join(to, r rune) rune {
	if to == 0 {
		to = ' '
	}
	var room [maxCluster + utf8.UTFMax]byte
	text := utf8.AppendRune(c.append(room[:0], to), r)
	if len(text) > maxCluster {
		return to
	}
	return c.add(text)
}

// add returns what stands for a text.
func (c *clusters) add(text []byte) rune {
	char, found := c.index[string(text)]
	if !found {
		if c.index == nil {
			c.index = map[string]rune{}
		}
		char = clusterBase + rune(len(c.texts))
		c.texts = append(c.texts, string(text))
		c.index[c.texts[len(c.texts)-1]] = char
	}
	return char
}

// append appends what a cell shows; it must be none of the marks.
func (c *clusters) append(to []byte, char rune) []byte {
	if char >= clusterBase {
		return append(to, c.texts[char-clusterBase]...)
	}
	return utf8.AppendRune(to, char)
}

// text is what a cell shows; it must be none of the marks.
func (c *clusters) text(char rune) string {
	if char >= clusterBase {
		return c.texts[char-clusterBase]
	}
	return string(char)
}
