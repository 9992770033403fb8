package mcp

import (
	"context"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tools"
)

// Bounds of one progress notification, and the pause after it.
const (
	maxProgress   = 16 << 10 // bytes of output; the rest is counted
	maxCollected  = 1024     // events
	progressPause = 50 * time.Millisecond
)

// outputOf subscribes to the output of a call if its request asks for progress. Otherwise it returns nil.
func (r *running) outputOf(request *sdk.CallToolRequest) (*bus.Subscription, error) {
	if request.Params.GetProgressToken() == nil {
		return nil, nil
	}
	watch := execbus.Watch{Name: "progress", Kinds: []messages.EventKind{messages.KindOutputDelta}}
	switch {
	case request.Params.Name == tools.ExecCommand:
		watch.Calls = []messages.CallID{r.id}
	case request.Params.Name == tools.WriteStdin && r.process != 0:
		watch.Processes = []messages.ProcessID{r.process}
	default:
		return nil, nil
	}
	return r.session.Events(watch)
}

// progress sends the client of one request the output of its call's process.
type progress struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// follow starts sending progress. It returns nil if the client did not ask for any.
func follow(ctx context.Context, request *sdk.CallToolRequest, r *running) *progress {
	if r.output == nil || request.Params.GetProgressToken() == nil {
		return nil
	}
	reading, cancel := context.WithCancel(ctx)
	p := &progress{cancel, make(chan struct{})}
	go func() {
		defer close(p.done)
		for {
			event, err := r.output.Next(reading)
			if err != nil {
				tell(ctx, request, collect(r.output, nil))
				return
			}
			tell(ctx, request, collect(r.output, event))
			select {
			case <-time.After(progressPause):
			case <-reading.Done():
			}
		}
	}()
	return p
}

// finish sends the remaining output.
func (p *progress) finish() {
	if p != nil {
		p.cancel()
		<-p.done
	}
}

// said is the output that one notification reports.
type said struct {
	text    strings.Builder
	omitted int64
	end     int64 // the offset at which it ends in the output of the process
}

// collect combines a first event with those that are already queued.
func collect(output *bus.Subscription, event messages.Event) *said {
	s := &said{}
	for range maxCollected {
		switch e := event.(type) {
		case messages.OutputDelta:
			s.end = e.Offset + int64(len(e.Bytes))
			if s.text.Len()+len(e.Bytes) > maxProgress {
				s.omitted += int64(len(e.Bytes))
			} else {
				s.text.WriteString(strings.ToValidUTF8(string(e.Bytes), "\uFFFD"))
			}
		case messages.Gap:
			s.end, s.omitted = max(s.end, e.End), s.omitted+e.End-e.First
		}
		next, more, _ := output.TryNext()
		if !more {
			break
		}
		event = next
	}
	return s
}

func tell(ctx context.Context, request *sdk.CallToolRequest, s *said) {
	if s.end == 0 {
		return
	}
	text := s.text.String()
	if s.omitted > 0 {
		text += messages.OmissionMarker(s.omitted)
	}
	_ = request.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ // a client that has gone needs no progress
		ProgressToken: request.Params.GetProgressToken(), Progress: float64(s.end), Message: text})
}
