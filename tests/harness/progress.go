package harness

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// Progress shows how far a command is: as one line that is rewritten on a terminal, and as a line now and then elsewhere. What
// is written to it appears above that line. It is safe for concurrent use.
type Progress struct {
	Began    time.Time
	terminal bool

	mu    sync.Mutex
	out   io.Writer
	line  string
	shown time.Time
}

const (
	// maxLine keeps a rewritten line from being wrapped on an ordinary terminal.
	maxLine = 160
	// linePause is the time between two lines where they cannot be rewritten.
	linePause = 10 * time.Second
)

func newProgress(out io.Writer) *Progress {
	p := &Progress{Began: time.Now(), out: out}
	if file, ok := out.(*os.File); ok {
		info, err := file.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// At shows a line about what is under way.
func (p *Progress) At(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := fmt.Sprintf("%6.1fs  %s", time.Since(p.Began).Seconds(), fmt.Sprintf(format, args...))
	switch {
	case p.terminal:
		p.line = line[:min(len(line), maxLine)]
		fmt.Fprintf(p.out, "\r\x1b[K%s", p.line)
	case time.Since(p.shown) >= linePause:
		fmt.Fprintln(p.out, line)
		p.shown = time.Now()
	}
}

// Clear removes the line.
func (p *Progress) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *Progress) clear() {
	if p.line != "" {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.line = ""
	}
}

// Write implements io.Writer.
func (p *Progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	return p.out.Write(text)
}

// Say writes a line that stays.
func (p *Progress) Say(format string, args ...any) {
	fmt.Fprint(p, strings.TrimRight(fmt.Sprintf(format, args...), " ")+"\n")
}
