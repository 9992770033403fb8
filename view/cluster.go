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
	text := c.text(to)
	if len(text)+utf8.RuneLen(r) > maxCluster {
		return to
	}
	return c.add(text + string(r))
}

// add returns what stands for a text.
func (c *clusters) add(text string) rune {
	char, found := c.index[text]
	if !found {
		if c.index == nil {
			c.index = map[string]rune{}
		}
		char = clusterBase + rune(len(c.texts))
		c.texts = append(c.texts, text)
		c.index[text] = char
	}
	return char
}

// text is what a cell shows; it must be none of the marks.
func (c *clusters) text(char rune) string {
	if char >= clusterBase {
		return c.texts[char-clusterBase]
	}
	return string(char)
}
