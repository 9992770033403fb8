//go:build linux

package hostile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tools"
)

func TestOutputArrivesAsItIs(t *testing.T) {
	for i, name := range slices.Sorted(maps.Keys(junkKinds)) {
		bytesOf := junkKinds[name]
		for _, tty := range []bool{false, true} {
			if thinned(i) {
				continue
			}
			t.Run(fmt.Sprintf("%s/tty=%v", name, tty), func(t *testing.T) {
				ledger.enter(t)
				h := open(t, execbus.Options{})
				want := bytesOf()
				command := h.role(tty, "junk", name)
				if tty { // the terminal must not change the output
					command.Argv = append([]string{"bash", "-c", `stty -opost; exec "$@"`, "bash"}, command.Argv...)
				}
				p := h.run(command, false)
				ended := p.end()
				if ended.Cause != messages.CauseExited || ended.Status != messages.StatusExited(0) || ended.Total != int64(len(want)) {
					t.Errorf("%s, %d bytes of %d", ended.String(), ended.Total, len(want))
				}
				if !bytes.Equal(p.seen.output, want) {
					t.Errorf("%d bytes arrived, %d were written: %.100q", len(p.seen.output), len(want), p.seen.output)
				}
				h.readsBack(p.id, want)
				note(t, "%s, %d bytes", ended.String(), ended.Total)
			})
		}
	}
}

// readsBack reads all retained output, and polls it as a model does.
func (h *host) readsBack(id messages.ProcessID, want []byte) {
	h.t.Helper()
	first := int64(0)
	page, err := h.Read(h.ctx, messages.ReadOutput{Process: id, Offset: &first, Max: len(want)})
	if err != nil {
		h.t.Errorf("read: %v", err)
		return
	}
	for _, chunk := range page.Chunks {
		if !bytes.Equal(chunk.Bytes, want[chunk.Offset:chunk.Offset+int64(len(chunk.Bytes))]) {
			h.t.Errorf("the chunk at %d differs", chunk.Offset)
		}
	}
	result, err := h.Poll(h.ctx, messages.Poll{Process: id})
	if err != nil {
		h.t.Errorf("poll: %v", err)
		return
	}
	head, tail := result.Output[:result.Head], result.Output[result.Head:]
	if !bytes.HasPrefix(want, head) || !bytes.HasSuffix(want, tail) || int64(len(result.Output))+result.Omitted != int64(len(want)) {
		h.t.Errorf("polled %d bytes and %d omitted, of %d", len(result.Output), result.Omitted, len(want))
	}
	if text := tools.Text(result); strings.ToValidUTF8(text, "") != text {
		h.t.Error("the text for the model is not UTF-8")
	}
}

// gibibyte is the size of a flood in the full run.
const gibibyte = 1 << 30

func TestFloodForASubscriberThatNeverReads(t *testing.T) {
	for _, tty := range []bool{false, true} {
		t.Run(fmt.Sprintf("tty=%v", tty), func(t *testing.T) {
			ledger.enter(t)
			h := open(t, execbus.Options{})
			lazy, err := h.Events(execbus.Watch{})
			if err != nil {
				t.Fatal(err)
			}
			size := sample(gibibyte)
			heap := heapNow()
			command := h.role(tty, "flood", fmt.Sprint(size))
			p := h.run(command, true)
			p.seen.slow = 6
			ended := p.end()
			if ended.Cause != messages.CauseExited || ended.Status != messages.StatusExited(0) || ended.Total != int64(size) {
				t.Errorf("%s, %d bytes of %d", ended.String(), ended.Total, size)
			}
			grown := heapNow() - heap
			if grown > 24<<20 { // the unread output, the log, the transcript and the subscriber's queue
				t.Errorf("the heap has grown by %d MiB", grown>>20)
			}
			got, lost := int64(0), int64(0)
			for event, err := range lazy.All(h.ctx) {
				if err != nil {
					t.Fatalf("the lazy subscriber: %v", err)
				}
				switch e := event.(type) {
				case messages.OutputDelta:
					if e.Offset != got+lost {
						t.Fatalf("offset %d comes after %d", e.Offset, got+lost)
					}
					got += int64(len(e.Bytes))
				case messages.Gap:
					lost += e.End - e.First
				}
				if event.Kind() == messages.KindExecEnded {
					break
				}
			}
			lazy.Close()
			if got+lost != int64(size) || lost == 0 || got > 4<<20 {
				t.Errorf("the lazy subscriber got %d and lost %d of %d bytes", got, lost, size)
			}
			note(t, "%s, %d MiB, heap +%d MiB", ended.String(), size>>20, max(grown, 0)>>20)
		})
	}
}

func heapNow() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func TestFloodForALosslessSubscriberThatNeverReads(t *testing.T) {
	for _, tty := range []bool{false, true} {
		for _, how := range []string{"terminate", "close", "shutdown"} {
			t.Run(fmt.Sprintf("%s/tty=%v", how, tty), func(t *testing.T) {
				ledger.enter(t)
				h := open(t, execbus.Options{})
				lazy, err := h.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindOutputDelta}, Lossless: true})
				if err != nil {
					t.Fatal(err)
				}
				p := h.run(h.role(tty, "flood", fmt.Sprint(gibibyte)), true)
				var before, now int64
				eventually(t, "the flood stands still", func() bool {
					page, err := h.Read(h.ctx, messages.ReadOutput{Process: p.id, Tail: 1, Max: 1})
					if err != nil {
						t.Fatal(err)
					}
					before, now = now, page.Total
					time.Sleep(20 * time.Millisecond)
					return now > 0 && now == before
				})
				if now > 2<<20 {
					t.Errorf("it wrote %d bytes that nobody has read", now)
				}
				// The leader dies at once, but its end is not reported before its last output was taken.
				ending := make(chan error, 1)
				go func() {
					switch how {
					case "terminate":
						_, err := h.Terminate(h.ctx, messages.Terminate{Process: p.id})
						ending <- err
					case "close":
						ending <- h.Close(h.ctx)
					case "shutdown":
						ending <- h.runtime.Shutdown(h.ctx)
					}
				}()
				awaitEvent[messages.ExecExited](p)
				eventually(t, "it is dead", func() bool { return len(living(h.token)) == 0 })
				lazy.Close()
				if err := <-ending; err != nil {
					t.Errorf("%s: %v", how, err)
				}
				ended := p.end()
				if ended.Cause != messages.CauseTerminated {
					t.Error(ended.String())
				}
				note(t, "%s after %d KiB", ended.String(), now>>10)
			})
		}
	}
}

func TestInputThatIsNeverRead(t *testing.T) {
	line := strings.Repeat("x", 1023) + "\n"
	mebibyte := []byte(strings.Repeat(line, 1<<10))
	cases := []struct {
		name     string
		tty      bool
		script   string
		code     messages.ErrorCode // of the error, if nothing was taken at all; or of InputErr
		min, max int                // bytes that were taken
	}{
		{"pipe", false, `echo up; sleep $1`, messages.ErrInputNotTaken, 4096, 1 << 20},
		{"raw terminal", true, `stty raw -echo; echo up; sleep $1`, messages.ErrInputNotTaken, 1, 1 << 18},
		{"terminal in line mode", true, `stty -echo; echo up; sleep $1`, messages.ErrInputNotTaken, 1, 1 << 18},
		{"terminal in line mode with echo", true, `echo up; sleep $1`, messages.ErrInputNotTaken, 1, 1 << 18},
		{"closed pipe", false, `exec <&-; echo up; sleep $1`, messages.ErrStdinClosed, 0, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ledger.enter(t)
			h := open(t, execbus.Options{})
			p := h.run(h.bash(c.tty, c.script), false)
			p.awaitOutput("up")
			first := make(chan string)
			go func() {
				taken, code := p.offer(mebibyte, 300*time.Millisecond)
				if code != c.code || taken < c.min || taken > c.max {
					t.Errorf("%d bytes were taken, %q; want %d to %d, %q", taken, code, c.min, c.max, c.code)
				}
				first <- fmt.Sprintf("%d bytes taken, %q", taken, code)
			}()
			note(t, "%s", <-first)
			if _, code := p.offer(append(mebibyte, '\n'), time.Minute); code != messages.ErrInputFull && code != messages.ErrStdinClosed {
				t.Errorf("more than a mebibyte: %q", code)
			}
			p.terminate()
			if ended := p.end(); ended.Cause != messages.CauseTerminated {
				t.Error(ended.String())
			}
		})
	}
}

// offer writes. It returns how many bytes were taken, and why not all of them.
func (p *program) offer(input []byte, patience time.Duration) (int, messages.ErrorCode) {
	result, err := p.Write(p.ctx, messages.WriteStdin{Process: p.id, Bytes: input, UntilTaken: true, Patience: new(patience)})
	if result == nil {
		return 0, codeOf(err)
	}
	return result.Taken, codeOf(err)
}

func TestDeathDuringAWrite(t *testing.T) {
	over := []messages.ErrorCode{messages.ErrStdinClosed, messages.ErrClosed, messages.ErrProcessEnded}
	for _, script := range []string{`head -c 1 >/dev/null; exit 3`, `head -c 1 >/dev/null; kill -KILL $$`, `head -c 1 >/dev/null; (setsid sleep $1 <&0 &); exit 3`} {
		for _, tty := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/tty=%v", script, tty), func(t *testing.T) {
				ledger.enter(t)
				for range sample(60) {
					t.Run("", func(t *testing.T) {
						h := open(t, execbus.Options{})
						command := h.bash(tty, script)
						if tty {
							command.Argv[2] = "stty raw -echo; echo up; " + script
						}
						p := h.run(command, false)
						if tty {
							p.awaitOutput("up")
						}
						const writers = 8
						outcomes := make(chan messages.ErrorCode)
						for range writers {
							go func() {
								_, code := p.offer(make([]byte, 1<<17), time.Minute)
								outcomes <- code
							}()
						}
						for range writers {
							code := <-outcomes
							if !slices.Contains(over, code) && (code != "" || !tty) { // a terminal without a reader takes its input
								t.Errorf("a write ended with %q", code)
							}
							note(parent{t}, "%q", code)
						}
						ended := p.end()
						if ended.Cause != messages.CauseExited || ended.Status != messages.StatusExited(3) && ended.Status != messages.StatusSignaled(syscall.SIGKILL) {
							t.Error(ended.String())
						}
						_, code := p.offer([]byte("late"), time.Minute)
						if code != messages.ErrProcessEnded {
							t.Errorf("a write after the end: %q", code)
						}
					})
				}
			})
		}
	}
}

// A caller that stops waiting gets an answer and takes no output with it, whatever the process does.
func TestCallersThatGiveUp(t *testing.T) {
	ledger.enter(t)
	h := open(t, execbus.Options{})
	p := h.run(h.bash(false, `while read x; do echo "$x"; done`), false)
	for i := range sample(1000) {
		ctx, cancel := context.WithCancel(h.ctx)
		calls := make(chan error)
		go func() { _, err := h.Poll(ctx, messages.Poll{Process: p.id}); calls <- err }()
		go func() {
			_, err := h.Write(ctx, messages.WriteStdin{Process: p.id, Bytes: fmt.Appendf(nil, "%d\n", i)})
			calls <- err
		}()
		cancel()
		for range 2 {
			if err := <-calls; err != nil && !errors.Is(err, messages.ErrCancelled) {
				t.Errorf("a cancelled call: %v", err)
			}
		}
	}
	p.terminate()
	note(t, "%s", p.end().EndRecord.Cause)
}
