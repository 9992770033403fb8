package harness

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress is where a command says what it does. It is safe for concurrent use.
type Progress struct {
	Began time.Time

	mu  sync.Mutex
	out io.Writer
}

// NewProgress returns one that writes there.
func NewProgress(out io.Writer) *Progress { return &Progress{Began: time.Now(), out: out} }

// Write implements io.Writer.
func (p *Progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(text)
}

// Say shows a line, with the time since the beginning.
func (p *Progress) Say(format string, args ...any) {
	fmt.Fprintf(p, "%6.1fs  %s\n", time.Since(p.Began).Seconds(), fmt.Sprintf(format, args...))
}
