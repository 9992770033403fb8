package window

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/view"
)

// Bounds of a live screen.
const (
	pictureTime = time.Second / 30 // the least between two pictures
	pictureSum  = 1500             // pictures a second for all who watch a process: where they are many, each gets fewer
	mostBehind  = 256 << 10        // bytes of output: a screen that is further behind begins again
	beginAgain  = 64 << 10         // with so many bytes before the end
	readWait    = time.Minute
)

// picture is what a screen shows at one moment. It is never changed: all who watch share it.
type picture struct {
	size   messages.Size
	rows   []string // JSON
	cursor view.Cursor
	title  string
	modes  view.Modes
	// approximate says that the screen was not made from all output: it may be wrong until the program clears it.
	approximate bool
	note        string // why no more comes; empty while some may

	number int    // of the screen's pictures
	change []byte // the message for those who have the one before
}

// feed is the live screen of a process, for all who watch it. It reads as any reader does: the process never waits for it.
type feed struct {
	key     key
	session Session
	own     *execbus.Session // the same; nil if it is not a runtime's
	end     context.CancelFunc

	// The lock is held to replace or read these: the screen, its resizes and those who watch it are in goroutines of their own.
	mu       sync.Mutex
	latest   *picture
	changed  chan struct{} // closed when there is another picture
	size     messages.Size // as far as is known: the output says when the screen gets it
	woken    bool          // there may be another size
	wake     context.CancelFunc
	watchers int
}

// watch joins those who watch a process.
func (w *Window) watch(k key, s Session, size messages.Size) *feed {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.feeds[k]
	if f == nil {
		ctx, end := context.WithCancel(w.ctx)
		f = &feed{key: k, session: s, own: own(s), end: end, latest: &picture{size: size.OrDefault()}, changed: make(chan struct{}), size: size.OrDefault(), wake: func() {}}
		w.feeds[k] = f
		w.work.Go(func() { f.run(ctx) })
		if f.own != nil {
			w.work.Go(func() { f.follow(ctx, w) })
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watchers++
	return f
}

// unwatch leaves; the screen of a process that nobody watches costs nothing.
func (w *Window) unwatch(f *feed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watchers--; f.watchers == 0 {
		f.end()
		delete(w.feeds, f.key)
	}
}

// now is the latest picture, and what is closed when there is another.
func (f *feed) now() (*picture, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.latest, f.changed
}

// follow notes new sizes of the terminal.
func (f *feed) follow(ctx context.Context, w *Window) {
	events, err := f.own.Events(execbus.Watch{Name: "window screen", Kinds: []messages.EventKind{messages.KindTerminalResized}, Processes: []messages.ProcessID{f.key.Process}})
	if err != nil {
		return
	}
	defer events.Close()
	if info, err := w.describe(ctx, f.key); err == nil { // it may have changed before the subscription
		f.resize(info.Size)
	}
	for event, err := range events.All(ctx) {
		if err != nil {
			return
		}
		if resized, is := event.(messages.TerminalResized); is {
			f.resize(resized.Size)
		}
	}
}

func (f *feed) resize(size messages.Size) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if size = size.OrDefault(); size != f.size {
		f.size, f.woken = size, true
		f.wake()
	}
}

// resize gives a screen the size that its terminal had at this look.
func (l *look) resize(f *feed) {
	for _, p := range l.processes {
		if p.key == f.key {
			f.resize(p.info.Size)
		}
	}
}

// run draws until nobody watches any more, or no more output can come.
func (f *feed) run(ctx context.Context) {
	d := &drawing{screen: view.NewScreen(f.latest.size), size: f.latest.size}
	// What programs ask is answered from this screen meanwhile. It is no fault that a process which has ended asks nothing.
	_ = f.session.WatchTerminal(ctx, messages.WatchTerminal{Process: f.key.Process})
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), actTime)
		defer cancel()
		_ = f.session.WatchTerminal(ctx, messages.WatchTerminal{Process: f.key.Process, Over: true})
	}()
	for began := false; ; {
		wait := readWait
		if d.drawn.IsZero() { // what there is now is shown at once, also if that is nothing
			wait = 0
		}
		page, err := f.read(ctx, d.at, wait)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, messages.ErrCancelled): // to be resized
		case err != nil:
			f.show(d, err.Error())
			return
		case page.Total-d.at > mostBehind && !began: // what is read next is shown, however far behind it is by then
			d.begin(page.Total - beginAgain)
			began = true
			continue
		default:
			if places := d.write(page); len(places) > 0 {
				_ = f.session.PlaceCursor(ctx, messages.PlaceCursor{Process: f.key.Process, Positions: places}) // it may have ended
			}
			began = false
		}
		f.mu.Lock()
		pause := max(pictureTime, time.Duration(f.watchers)*time.Second/pictureSum)
		f.mu.Unlock()
		if left := pause - time.Since(d.drawn); left > 0 {
			select {
			case <-time.After(left):
			case <-ctx.Done():
				return
			}
		}
		over := page != nil && page.Ended && d.at >= page.Total
		if over {
			f.show(d, "no more output comes")
			return
		}
		f.show(d, "")
	}
}

// read waits for more output, or for another size.
func (f *feed) read(ctx context.Context, at int64, wait time.Duration) (*messages.OutputPage, error) {
	ctx, wake := context.WithCancel(ctx)
	defer wake()
	f.mu.Lock()
	if f.wake = wake; f.woken {
		f.woken, wait = false, 0
	}
	f.mu.Unlock()
	return f.session.Read(ctx, messages.ReadOutput{Process: f.key.Process, Offset: &at, Max: beginAgain, Wait: wait, SkipLost: true})
}

// show makes a picture.
func (f *feed) show(d *drawing, note string) {
	d.drawn = time.Now()
	p := d.picture()
	p.note = note
	f.mu.Lock()
	defer f.mu.Unlock()
	for y := range p.rows {
		if y < len(f.latest.rows) && f.latest.rows[y] == p.rows[y] {
			p.rows[y] = f.latest.rows[y] // the same memory: it is compared quickly
		}
	}
	p.number = f.latest.number + 1
	p.change = p.difference(f.latest)
	f.latest = p
	close(f.changed)
	f.changed = make(chan struct{})
}

// drawing is a screen with its place in the output.
type drawing struct {
	screen      *view.Screen
	size        messages.Size
	at          int64
	drawn       time.Time
	approximate bool
	tail        []byte // the last bytes, in which a sequence may be cut
}

// begin goes on with an empty screen somewhere in the output.
func (d *drawing) begin(at int64) {
	d.screen, d.at, d.approximate, d.tail = view.NewScreen(d.size), at, true, nil
}

// write draws output, and returns where the cursor was when the program asked for that.
func (d *drawing) write(page *messages.OutputPage) (places []messages.CursorPosition) {
	if page.Missed > 0 {
		d.begin(d.at + page.Missed)
	}
	for _, chunk := range page.Chunks {
		d.at = chunk.Offset
		for rest := chunk.Bytes; len(rest) > 0; {
			n := d.fit(page.Sizes, len(rest))
			places = append(places, d.add(rest[:n])...)
			rest = rest[n:]
		}
	}
	d.fit(page.Sizes, 0)
	return places[max(0, len(places)-messages.MaxCursorPositions):]
}

// fit gives the screen the size that the terminal had here, and returns how many of the next bytes come before another one.
func (d *drawing) fit(sizes messages.TerminalSizes, bytes int) int {
	size := d.size
	for _, s := range sizes {
		if s.Offset > d.at {
			bytes = int(min(int64(bytes), s.Offset-d.at))
			break
		}
		size = s.Size
	}
	if size != d.size {
		d.size = size
		d.screen.Resize(size)
	}
	return bytes
}

// add draws output that comes next.
func (d *drawing) add(output []byte) (places []messages.CursorPosition) {
	all := append(d.tail, output...)
	written := len(d.tail)
	for from := 0; ; {
		found := bytes.Index(all[from:], []byte(asksPosition))
		if found < 0 {
			break
		}
		if from += found + len(asksPosition); from <= written { // it was answered with the chunk before
			continue
		}
		_, _ = d.screen.Write(all[written:from]) // it never fails
		written = from
		at := d.screen.Cursor()
		places = append(places, messages.CursorPosition{Offset: d.at + int64(written-len(d.tail)), Row: uint16(at.Row + 1), Col: uint16(at.Col + 1)})
	}
	_, _ = d.screen.Write(all[written:])
	d.at += int64(len(output))
	d.approximate = d.approximate && !clears(all)
	d.tail = bytes.Clone(all[max(0, len(all)-len(alternate)+1):])
	return places
}

const (
	alternate    = "\x1b[?1049h"
	asksPosition = "\x1b[6n"
)

// clears reports whether output has a sequence after which nothing of what was shown before is seen.
func clears(output []byte) bool {
	for _, sequence := range []string{"\x1b[2J", "\x1b[H\x1b[J", "\x1b[H\x1b[0J", "\x1bc", alternate} {
		if bytes.Contains(output, []byte(sequence)) {
			return true
		}
	}
	return false
}

func (d *drawing) picture() *picture {
	p := &picture{size: d.screen.Size(), cursor: d.screen.Cursor(), title: d.screen.Title(), modes: d.screen.Modes(), approximate: d.approximate}
	for y := range int(p.size.Rows) {
		spans := [][]any{}
		for _, s := range d.screen.Row(y) {
			spans = append(spans, []any{s.Text, s.Cols, s.Foreground, s.Background, s.Look})
		}
		row, _ := json.Marshal(spans) // texts and numbers
		p.rows = append(p.rows, string(row))
	}
	return p
}

// message is for one who has an earlier picture; nil stands for none.
func (p *picture) message(before *picture) []byte {
	if before != nil && before.number == p.number-1 {
		return p.change
	}
	return p.difference(before)
}

func (p *picture) difference(before *picture) []byte {
	set := map[string]json.RawMessage{}
	for y, row := range p.rows {
		if before == nil || y >= len(before.rows) || before.rows[y] != row {
			set[strconv.Itoa(y)] = json.RawMessage(row)
		}
	}
	text, _ := json.Marshal(map[string]any{"screen": map[string]any{"rows": p.size.Rows, "cols": p.size.Cols, "set": set, "title": p.title,
		"approximate": p.approximate, "note": p.note, "cursor": []any{p.cursor.Row, p.cursor.Col, p.cursor.Visible},
		"applicationCursor": p.modes.ApplicationCursor, "bracketedPaste": p.modes.BracketedPaste}}) // texts and numbers
	return text
}
