package execbus_test

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// reader reads the output of a process as a remote host does: what is behind its place, or a wait for it.
type reader struct {
	session *execbus.Session
	process messages.ProcessID
	output  []byte // what the process says

	at, missed int64  // bytes that were read or missed so far, and the missed ones
	seq        uint64 // the same in chunks
	bySeq      bool
	small      bool // it reads little at a time
	late       bool // it begins when the process has ended
}

// next reads once and checks that what it gets is where it should be. It reports whether there is more.
func (r *reader) next(t *testing.T) bool {
	read := messages.ReadOutput{Process: r.process, Max: 100_000, Wait: patience, SkipLost: true}
	if r.small {
		read.Max = 5_000
	}
	if r.bySeq {
		read.AfterSeq = &r.seq
	} else {
		read.Offset = &r.at
	}
	page, err := r.session.Read(patient(t), read)
	if err != nil {
		t.Error(err)
		return false
	}
	if r.bySeq {
		r.seq += page.MissedChunks
		if len(page.Chunks) > 0 { // the log counts chunks, and this test bytes
			r.missed += page.Chunks[0].Offset - r.at
			r.at = page.Chunks[0].Offset
		}
	} else {
		r.missed, r.at = r.missed+page.Missed, r.at+page.Missed
	}
	for _, c := range page.Chunks {
		end := c.Offset + int64(len(c.Bytes))
		if c.Offset != r.at || r.bySeq && c.Seq != r.seq+1 || !bytes.Equal(c.Bytes, r.output[c.Offset:min(end, int64(len(r.output)))]) {
			t.Errorf("behind byte %d and chunk %d come %d bytes at %d in chunk %d", r.at, r.seq, len(c.Bytes), c.Offset, c.Seq)
			return false
		}
		r.at, r.seq = end, c.Seq
	}
	return !page.Ended || r.at < page.Total
}

// Readers, three of them at once, and one who polls follow a process that floods, each at a pace of its own, and none takes anything from the
// others: each gets everything, or knows exactly what it has missed.
func TestReadersOfAFloodBesideAPoller(t *testing.T) {
	both(t, func(t *testing.T, session *execbus.Session) {
		const lines = 600_000
		var output []byte
		for i := range lines {
			output = append(strconv.AppendInt(output, int64(i+1), 10), '\n')
		}
		id := launch(t, session, bash(fmt.Sprint("read line; seq ", lines)))
		readers := map[string]*reader{"by offset": {}, "by sequence": {bySeq: true}, "in small steps": {small: true},
			"late": {late: true}, "late, by sequence": {late: true, bySeq: true}}
		var done sync.WaitGroup
		ended := make(chan struct{})
		for _, r := range readers {
			r.session, r.process, r.output = session, id, output
			done.Go(func() {
				if r.late {
					<-ended
				}
				for r.next(t) {
				}
			})
		}
		polled, omitted := int64(0), int64(0)
		since := time.Now()
		result, err := session.Write(patient(t), messages.WriteStdin{Process: id, Bytes: []byte("\n")})
		for running := true; running; {
			if err != nil {
				t.Fatal(err)
			}
			polled, omitted, running = polled+int64(len(result.Output)), omitted+result.Omitted, result.Running
			if running {
				result, err = session.Poll(patient(t), messages.Poll{Process: id})
			}
		}
		close(ended)
		done.Wait()
		t.Logf("%d bytes in %v; the poller lost %d", len(output), time.Since(since), omitted)
		if got := polled + omitted; got != int64(len(output)) {
			t.Errorf("who polled got %d bytes and lost %d, of %d", polled, omitted, len(output))
		}
		for name, r := range readers {
			t.Logf("the reader %s lost %d", name, r.missed)
			if r.at != int64(len(output)) {
				t.Errorf("the reader %s came to byte %d of %d", name, r.at, len(output))
			}
			if r.late && r.missed == 0 {
				t.Errorf("the reader %s has missed nothing: the flood is too small to test anything", name)
			}
		}
	})
}

// A read says where in the output a terminal was resized: before all that its program prints for the new size.
func TestAReadSaysWhereATerminalWasResized(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, session *execbus.Session) {
		events := watch(t, session, execbus.Watch{Kinds: []messages.EventKind{messages.KindOutputDelta}})
		id := launch(t, session, messages.ExecCommand{Argv: []string{"bash", "-c", `while :; do now=$(stty size); [ "$now" = "$old" ] || echo "$now"; old=$now; sleep 0.01; done`}, TTY: true})
		awaitOutput(t, events, "24 80\r\n")
		sizes := messages.TerminalSizes{{Size: messages.Size{Rows: 24, Cols: 80}}}
		for i := range messages.MaxTerminalSizes {
			size := messages.Size{Rows: uint16(30 + i), Cols: 100}
			if err := session.Resize(patient(t), messages.Resize{Process: id, Size: size}); err != nil {
				t.Fatal(err)
			}
			said := fmt.Sprintf("%d 100\r\n", size.Rows)
			awaitOutput(t, events, said)
			page, err := session.Read(patient(t), messages.ReadOutput{Process: id, Offset: new(int64)})
			if err != nil {
				t.Fatal(err)
			}
			var output []byte
			for _, c := range page.Chunks {
				output = append(output, c.Bytes...)
			}
			last := page.Sizes[len(page.Sizes)-1]
			at := int64(bytes.Index(output, []byte(said)))
			if before := sizes[len(sizes)-1]; last.Size != size || last.Offset > at || last.Offset < before.Offset {
				t.Errorf("%+v, and %q begins at %d", page.Sizes, said, at)
			}
			if sizes = append(sizes, last); !slices.Equal(page.Sizes, sizes[max(0, len(sizes)-messages.MaxTerminalSizes):]) {
				t.Errorf("%v, want %v", page.Sizes, sizes)
			}
		}
	})
}
