package record

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

// hung is a file on a disk that takes nothing.
type hung struct{ until chan struct{} }

func (h hung) Write(p []byte) (int, error) { <-h.until; return len(p), nil }
func (h hung) Truncate(int64) error        { return nil }
func (h hung) Close() error                { return nil }

// A disk that hangs costs processes their recordings, one after MaxStall and one at the end, and nothing else: the recorder says so once,
// records what else happens, and ends, all of it within another MaxStall.
func TestADiskThatHangsEndsARecordingAfterMaxStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, disk, began := t.TempDir(), hung{make(chan struct{})}, time.Now()
		var notices []string
		r, err := New(Options{Dir: dir, Notice: func(text string) { notices = append(notices, fmt.Sprint(time.Since(began), ": ", text)) }})
		if err != nil {
			t.Fatal(err)
		}
		r.create = func(name string) (storage, error) {
			if strings.HasSuffix(name, "-1001.cast") {
				return create(name)
			}
			return disk, nil
		}
		b := bus.New(bus.Options{})
		events, err := b.Subscribe(bus.Filter{}, bus.SubscribeOptions{Lossless: true})
		if err != nil {
			t.Fatal(err)
		}
		const pieces = 10 // more than a writer holds
		for i, pieces := range []int{pieces, pieces, 1} {
			process := messages.ProcessID(1000 + i)
			o := messages.Origin{Session: "session-1", Process: process, At: began}
			b.Publish(messages.ExecStarted{Origin: o, Argv: []string{"yes"}})
			for range pieces {
				b.Publish(messages.OutputDelta{Origin: o, Stream: messages.StreamStdout, Bytes: []byte(strings.Repeat("x", batch))})
			}
			b.Publish(messages.ExecEnded{Origin: o, EndRecord: messages.EndRecord{Cause: messages.CauseExited, Status: messages.StatusExited(0)}})
		}
		b.Close()
		r.Follow(context.Background(), events)
		took := time.Since(began)
		close(disk.until) // the disk is back, too late
		if stalled := MaxStall.String() + ": a recording is not complete: " + errStalled.Error(); len(notices) != 1 || notices[0] != stalled || took != 2*MaxStall {
			t.Errorf("after %v: %q", took, notices)
		}
		files, _ := filepath.Glob(filepath.Join(dir, "*.cast"))
		if len(files) != 1 {
			t.Fatalf("the other recording is not alone: %q", files)
		}
		text, err := os.ReadFile(files[0])
		if err != nil || strings.Count(string(text), "x") < pieces*batch || !strings.HasSuffix(string(text), `"x", "0"]`+"\n") {
			t.Errorf("the other recording has %d bytes, %v", len(text), err)
		}
	})
}
