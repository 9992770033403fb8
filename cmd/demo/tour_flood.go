package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tools"
)

// flood is a process with much output, and that output.
type flood struct {
	id   messages.ProcessID
	said []byte
	kept *messages.Result
}

// modelTokens is how much of the flood the narration shows.
const modelTokens = 16

// numbers returns the output of seq 1 to.
func numbers(to int) []byte {
	var text []byte
	for i := 1; i <= to; i++ {
		text = append(strconv.AppendInt(text, int64(i), 10), '\n')
	}
	return text
}

func showFlood(ctx context.Context, t *tour, s *scene) error {
	const to = 3_000_000
	f := &flood{said: numbers(to)}
	size := int64(len(f.said))
	s.say("seq 1 %d writes %d bytes. The tour counts and compares them:", to, size)
	result, err := t.session.Exec(ctx, messages.ExecCommand{Call: messages.CallID(t.call()), Argv: []string{"seq", "1", strconv.Itoa(to)},
		Yield: new(messages.MaxYield), MaxOutputTokens: new(modelTokens)})
	if err != nil {
		return err
	}
	f.id, f.kept = result.Process, result
	s.say("The answer for a model that wants at most %d tokens:", modelTokens)
	s.quote(tools.Text(result))
	kept := int64(len(result.Output))
	head, tail := result.Output[:result.Head], result.Output[result.Head:]
	s.fact("bytes", size)
	s.fact("kept", kept)
	s.fact("dropped", result.Omitted)
	s.fact("milliseconds", result.WallTime.Milliseconds())
	s.check(!result.Running && result.Status == messages.StatusExited(0), "it has ended with code 0, after %d ms", result.WallTime.Milliseconds())
	s.check(kept+result.Omitted == size, "%d bytes kept + %d dropped = %d written", kept, result.Omitted, size)
	s.check(kept <= 1<<20, "no more than 1 MiB was kept for the answer")
	s.check(bytes.HasPrefix(f.said, head) && bytes.HasSuffix(f.said, tail), "the beginning and the end were kept, byte for byte")
	t.flooded = f
	return nil
}

func showOmitted(ctx context.Context, t *tour, s *scene) error {
	f := t.flooded
	if f == nil {
		return errEarlier
	}
	first := int64(f.kept.Head) // the answer had the bytes before first and those from end on
	end := first + f.kept.Omitted
	s.say("The answer left out the bytes from %d to %d.", first, end)
	page, err := t.session.Read(ctx, messages.ReadOutput{Process: f.id, Offset: new(end - 1000), Max: 1000})
	if err != nil {
		return err
	}
	read := join(page.Chunks)
	s.check(bytes.Equal(read, f.said[end-1000:end]), "the last 1000 of these can be read, although the process has ended")
	s.say("Remembered:")
	var sum int64
	for _, r := range page.Retained {
		s.quote(fmt.Sprintf("bytes %d to %d, chunks %d to %d", r.First, r.End, r.FirstSeq, r.EndSeq))
		sum += r.End - r.First
	}
	s.fact("retained", page.Retained)
	s.fact("remembered", sum)
	s.check(len(page.Retained) == 2 && sum < 2<<20, "two stretches, %d bytes together", sum)
	middle := int64(len(f.said) / 2)
	_, err = t.session.Read(ctx, messages.ReadOutput{Process: f.id, Offset: &middle, Max: 1000})
	s.say("A read from the middle, at %d:", middle)
	if err == nil {
		s.check(false, "a read of bytes that are no longer remembered is an error")
		return nil
	}
	s.quote(err.Error())
	s.check(errors.Is(err, messages.ErrOutputUnretained), "it fails, and the error says which bytes can be read")
	return nil
}

func join(chunks []messages.OutputChunk) []byte {
	var joined []byte
	for _, c := range chunks {
		joined = append(joined, c.Bytes...)
	}
	return joined
}

func showSlow(ctx context.Context, t *tour, s *scene) error {
	const to = 2_000_000
	said := numbers(to)
	call := messages.CallID(t.call())
	watch := execbus.Watch{Calls: []messages.CallID{call}}
	slow, err := t.session.Events(watch)
	if err != nil {
		return err
	}
	defer slow.Close()
	watch.Lossless = true
	quick, err := t.session.Events(watch)
	if err != nil {
		return err
	}
	defer quick.Close()
	s.say("Two subscribers follow the output of seq 1 %d. One is lossless and reads at once. The other reads nothing until the end.", to)
	if _, err := t.session.Start(ctx, messages.ExecCommand{Call: call, Argv: []string{"seq", "1", strconv.Itoa(to)}}); err != nil {
		return err
	}
	all, err := listen(ctx, quick)
	if err != nil {
		return err
	}
	s.check(bytes.Equal(all.bytes, said) && len(all.gaps) == 0, "the lossless one has all %d bytes, in %d events", len(said), all.deltas)
	late, err := listen(ctx, slow)
	if err != nil {
		return err
	}
	if len(late.gaps) != 1 {
		s.check(false, "the slow one finds one gap; it found %d", len(late.gaps))
		return nil
	}
	gap := late.gaps[0]
	s.quote(fmt.Sprintf("gap: bytes %d to %d, in %d events", gap.First, gap.End, gap.Deltas))
	s.fact("gap", gap)
	s.fact("bytes", len(said))
	s.fact("received", len(late.bytes))
	lost := gap.End - gap.First
	s.check(int64(len(late.bytes))+lost == int64(len(said)), "%d bytes received + %d in the gap = %d written", len(late.bytes), lost, len(said))
	s.check(late.deltas+gap.Deltas == all.deltas, "%d events received + %d in the gap = %d published", late.deltas, gap.Deltas, all.deltas)
	s.check(bytes.Equal(late.bytes, append(said[:gap.First:gap.First], said[gap.End:]...)), "it received the rest, byte for byte")
	s.check(late.lifecycle == all.lifecycle, "it lost no other event: started, exited, closed, ended")
	return nil
}

// heard holds the events that a subscriber got from one process.
type heard struct {
	bytes             []byte
	deltas, lifecycle int
	gaps              []messages.Gap
}

// listen reads events up to the end of the process.
func listen(ctx context.Context, events subscription) (heard, error) {
	var h heard
	for {
		event, err := events.Next(ctx)
		if err != nil {
			return h, err
		}
		switch e := event.(type) {
		case messages.OutputDelta:
			h.deltas++
			h.bytes = append(h.bytes, e.Bytes...)
		case messages.Gap:
			h.gaps = append(h.gaps, e)
		case messages.ExecEnded:
			h.lifecycle++
			return h, nil
		default:
			h.lifecycle++
		}
	}
}
