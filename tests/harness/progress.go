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
	at  time.Time // of the last line that At has shown
}

// NewProgress returns one that writes there.
func NewProgress(out io.Writer) *Progress { return &Progress{Began: time.Now(), out: out} }

// progressPause is the time between two lines about what is under way.
const progressPause = 5 * time.Second

// At shows what is under way, if it has not done so for a while.
func (p *Progress) At(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) >= progressPause {
		p.at = time.Now()
		fmt.Fprintf(p.out, "%6.1fs  %s\n", time.Since(p.Began).Seconds(), fmt.Sprintf(format, args...))
	}
}

// Write implements io.Writer.
func (p *Progress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(text)
}

// Say shows a line.
func (p *Progress) Say(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }
