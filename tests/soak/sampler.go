package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	samplePause   = time.Second
	progressPause = 10 * time.Second // on outputs where lines cannot be rewritten
	slow          = 5 * time.Second  // a step that takes longer is mentioned
)

// sampler takes samples every second, shows the progress, and notices a worker that hangs.
type sampler struct {
	soak   *soak
	hung   chan struct{}
	ending chan struct{}
	over   chan struct{}

	mu      sync.Mutex // one look at a time, because a look needs descriptors, too
	series  series
	keeping bool
}

func startSampler(s *soak) *sampler {
	p := &sampler{soak: s, hung: make(chan struct{}), ending: make(chan struct{}), over: make(chan struct{})}
	go p.watch()
	return p
}

// take takes a sample now.
func (p *sampler) take() (sample, census) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.soak.watcher.measure(time.Since(p.soak.out.began))
}

// keep sets whether samples are kept from now on.
func (p *sampler) keep(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keeping = yes
}

func (p *sampler) stop() {
	close(p.ending)
	<-p.over
	p.soak.out.clear()
}

func (p *sampler) watch() {
	defer close(p.over)
	ticker := time.NewTicker(samplePause)
	defer ticker.Stop()
	told := false
	for {
		select {
		case <-p.ending:
			return
		case <-ticker.C:
		}
		one, _ := p.take()
		p.mu.Lock()
		if p.keeping {
			p.series.add(one)
		}
		p.mu.Unlock()
		if what, age := p.soak.crew.slowest(); age > hopeless && !told {
			told = true
			p.soak.faults.add(what, "hangs; this run ends here")
			p.soak.out.Write(stacks())
			close(p.hung)
		}
		p.soak.out.progress(p.line(one))
	}
}

// line describes the progress.
func (p *sampler) line(one sample) string {
	what := p.soak.load.progress()
	if step, age := p.soak.crew.slowest(); age > slow {
		what += fmt.Sprintf(", %v in %s", age.Round(time.Second), step)
	}
	_, broken := p.soak.faults.all()
	v := one.values
	return fmt.Sprintf("%v: %s | fds %d+%d, goroutines %d, threads %d+%d, zombies %d, descendants %d, ptys %d, heap %s, rss %s+%s | %d broken",
		one.at.Round(time.Second), what, v[descriptors], v[wardenDescriptors], v[goroutines], v[threads], v[wardenThreads], v[zombies],
		v[descendants], v[ptys], mebibytes.show(v[heap]), mebibytes.show(v[rss]), mebibytes.show(v[wardenRSS]), broken)
}

// display shows the progress: as one line that is rewritten on a terminal, and as a line now and then elsewhere. Text that
// is written to it appears above the line.
type display struct {
	began    time.Time
	terminal bool

	mu    sync.Mutex
	out   io.Writer
	line  string
	shown time.Time
}

func newDisplay(out io.Writer) *display {
	d := &display{began: time.Now(), out: out}
	if file, ok := out.(*os.File); ok {
		info, err := file.Stat()
		d.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return d
}

// maxLine keeps a rewritten line from being wrapped on an ordinary terminal.
const maxLine = 160

func (d *display) progress(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.terminal:
		if len(line) > maxLine {
			line = line[:maxLine]
		}
		fmt.Fprintf(d.out, "\r\x1b[K%s", line)
		d.line = line
	case time.Since(d.shown) >= progressPause-samplePause/2:
		fmt.Fprintln(d.out, line)
		d.shown = time.Now()
	}
}

// clear removes the line.
func (d *display) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.line != "" {
		fmt.Fprint(d.out, "\r\x1b[K")
		d.line = ""
	}
}

// Write implements io.Writer.
func (d *display) Write(p []byte) (int, error) {
	d.clear()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.out.Write(p)
}

func (d *display) say(format string, args ...any) {
	fmt.Fprint(d, strings.TrimRight(fmt.Sprintf(format, args...), " ")+"\n")
}
