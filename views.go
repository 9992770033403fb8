package execbus

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/view"
)

// Bounds of one view. A view that would exceed them is not made, and the answer is raw: a few bytes can fill a screen many times.
const (
	viewTime   = time.Second
	viewGrowth = 4        // times the bytes of the output that it shows
	viewSpare  = 64 << 10 // bytes besides
	viewPiece  = 4 << 10  // bytes of output between two looks at the bounds

	// A screen begins with the first bytes of the output, and goes on with these last ones before the output that is shown.
	viewFirst = 512 << 10
	viewLast  = 1 << 20
)

// errViewBounds ends the making of a view.
var errViewBounds = errors.New("the view is too large, or takes too long")

// show adds a view to a result.
func (s *Session) show(ctx context.Context, r *messages.Result, asked messages.View) *messages.Result {
	form := cmp.Or(asked, s.view, messages.ViewRaw)
	if form == messages.ViewRaw || r.Patch != nil {
		return r
	}
	cut := min(max(r.Head, 0), len(r.Output))
	shown := *r // others may have the same
	shown.Shown = s.shown(ctx, r.Process, form, r.Offset, r.Output[:cut], r.Output[cut:])
	return &shown
}

// shown makes a view of output that begins at an offset. It is nil if that cannot be done within the bounds.
func (s *Session) shown(ctx context.Context, process messages.ProcessID, form messages.View, offset int64, head, tail []byte) *messages.Shown {
	// The answer is there, so the end of the call's context does not matter any more.
	ctx, cancel := context.WithTimeout(withoutBegun(context.WithoutCancel(ctx)), s.runtime.patience.view)
	defer cancel()
	size, err := s.terminalSize(ctx, process)
	if err != nil {
		return nil
	}
	fullScreen := false // the output begins while the alternate screen is on
	if size != (messages.Size{}) {
		screen := view.NewScreen(size)
		if fullScreen, err = s.foldBefore(ctx, process, offset, screen); err != nil {
			return nil
		}
		if feed(ctx, screen, head) != nil || feed(ctx, screen, tail) != nil {
			return nil
		}
		if form == messages.ViewScreen || screen.FullScreen() {
			return &messages.Shown{View: messages.ViewScreen, Text: screen.Text()}
		}
	}
	before, fullScreen, err := textOf(ctx, head, size, fullScreen)
	if err != nil {
		return nil
	}
	after, _, err := textOf(ctx, tail, size, fullScreen)
	if err != nil {
		return nil
	}
	return &messages.Shown{View: messages.ViewText, Text: string(before) + string(after), Head: len(before)}
}

// terminalSize is the size of a process's terminal as it is now; zero of pipes.
func (s *Session) terminalSize(ctx context.Context, process messages.ProcessID) (messages.Size, error) {
	list, err := s.Records(ctx)
	if err != nil {
		return messages.Size{}, err
	}
	for _, info := range list {
		if info.Process == process {
			if info.TTY {
				return info.Size.OrDefault(), nil
			}
			return messages.Size{}, nil
		}
	}
	return messages.Size{}, errViewBounds // it was forgotten meanwhile
}

// foldBefore feeds a screen with what is kept before an offset, and reports whether the alternate screen is then on.
func (s *Session) foldBefore(ctx context.Context, process messages.ProcessID, end int64, screen *view.Screen) (bool, error) {
	for at := int64(0); at < end; {
		stop := end
		if end > viewFirst+viewLast {
			if at < viewFirst {
				stop = viewFirst
			} else {
				at = max(at, end-viewLast)
			}
		}
		page, err := s.Read(ctx, messages.ReadOutput{Process: process, Offset: &at, Max: int(min(stop-at, messages.MaxRead)), SkipLost: true})
		if err != nil {
			return false, err
		}
		at += page.Missed
		for _, chunk := range page.Chunks {
			piece := chunk.Bytes[:max(0, min(int64(len(chunk.Bytes)), end-chunk.Offset))]
			if err := feed(ctx, screen, piece); err != nil {
				return false, err
			}
			at = chunk.Offset + int64(len(chunk.Bytes))
		}
		if len(page.Chunks) == 0 {
			break // nothing more is kept
		}
	}
	return screen.FullScreen(), nil
}

// feed writes output to a screen until the time is over.
func feed(ctx context.Context, screen *view.Screen, output []byte) error {
	for len(output) > 0 {
		if ctx.Err() != nil {
			return errViewBounds
		}
		n := min(len(output), viewPiece)
		_, _ = screen.Write(output[:n])
		output = output[n:]
	}
	return nil
}

// textOf is view.TextOf within the bounds, of output that may begin while the alternate screen is on. It reports whether that is on in
// the end.
func textOf(ctx context.Context, output []byte, size messages.Size, fullScreen bool) (shown []byte, ends bool, err error) {
	most := viewGrowth*len(output) + viewSpare
	text := view.NewText(size)
	if fullScreen {
		text.Append(nil, []byte("\x1b[?1049h"))
	}
	for len(output) > 0 {
		n := min(len(output), viewPiece)
		shown = text.Append(shown, output[:n])
		output = output[n:]
		if ctx.Err() != nil || len(shown) > most {
			return nil, false, errViewBounds
		}
	}
	return text.AppendRest(shown), text.FullScreen(), nil
}

// viewed adds a view to a page.
func (s *Session) viewed(ctx context.Context, page *messages.OutputPage, read messages.ReadOutput) *messages.OutputPage {
	viewed := *page // others may have the same
	if read.Grep != nil {
		viewed.Lines = shownLines(page.Lines, read.View)
		return &viewed
	}
	output := s.fill(ctx, &viewed, read)
	if read.View != messages.ViewRaw {
		viewed.Shown = s.shown(ctx, read.Process, read.View, begins(page, read), output, nil)
	}
	return &viewed
}

// begins is the offset at which a page begins; one without chunks begins where it was asked for, or at the end.
func begins(page *messages.OutputPage, read messages.ReadOutput) int64 {
	switch {
	case len(page.Chunks) > 0:
		return page.Chunks[0].Offset
	case read.Offset != nil:
		return min(*read.Offset, page.Total)
	}
	return page.Total
}

// fill adds what follows to a page, up to the bound on its bytes or to output that is not kept, and returns the bytes.
func (s *Session) fill(ctx context.Context, page *messages.OutputPage, read messages.ReadOutput) (output []byte) {
	for _, c := range page.Chunks {
		output = append(output, c.Bytes...)
	}
	page.Chunks = slices.Clone(page.Chunks)
	for len(output) > 0 && len(output) < read.Most() {
		at := page.Chunks[0].Offset + int64(len(output))
		if at >= page.Total {
			break
		}
		next, err := begin[*messages.OutputPage](withoutBegun(ctx), s, messages.ReadOutput{Process: read.Process, Offset: &at, Max: read.Most() - len(output)})
		if err != nil || len(next.Chunks) == 0 {
			break // it is not kept, or not for long
		}
		for _, c := range next.Chunks {
			output = append(output, c.Bytes...)
		}
		page.Chunks = append(page.Chunks, next.Chunks...)
		page.Total, page.LastSeq, page.Retained, page.Ended = next.Total, next.LastSeq, next.Retained, next.Ended
	}
	return output
}

// shownLines are lines in a view. A line that is shown as text need not have in it what was found: a later part may have been written over it.
func shownLines(lines []messages.OutputLine, form messages.View) []messages.OutputLine {
	if form == messages.ViewRaw {
		return lines
	}
	shown := slices.Clone(lines)
	for i := range shown {
		shown[i].Bytes = bytes.TrimRight(view.TextOf(shown[i].Bytes, messages.Size{}), "\n")
	}
	return shown
}
