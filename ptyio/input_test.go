//go:build linux

package ptyio_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// raw makes a shell script on a terminal in raw mode, or on pipes.
func raw(tty bool, script string) ptyio.Launch {
	if tty {
		script = "stty raw -echo; " + script
	}
	return shell(tty, script)
}

func TestConcurrentWritesArriveWholeAndInTheirCallersOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		const writers, each = 16, 40
		r := start(t, spawner, raw(tty, "echo ready; exec cat"))
		r.awaitOutput(t, "ready")
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				var results []<-chan outcome
				for i := range each {
					line := fmt.Sprintf("<%02d %03d %s>\n", w, i, letters(i*5))
					results = append(results, r.send(t, []byte(line), patience))
				}
				for _, result := range results {
					if got := receive(t, result); got.err != nil {
						t.Error(got.err)
					}
				}
			})
		}
		all.Wait()
		r.await(t, "all lines", func() bool { return strings.Count(r.main(), ">\n") == writers*each })
		next := make([]int, writers)
		for _, line := range strings.Split(r.text(), "\n")[1:] {
			var w, i int
			if _, err := fmt.Sscanf(line, "<%d %d", &w, &i); err != nil {
				continue
			}
			if want := fmt.Sprintf("<%02d %03d %s>", w, i, letters(i*5)); line != want || next[w] != i {
				t.Fatalf("line %q; writer %d was at %d", line, w, next[w])
			}
			next[w]++
		}
	})
}

func TestWhatIsNotTakenInTimeIsDiscardedAndCounted(t *testing.T) {
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		g := newGate(t)
		r := start(t, spawner, raw(tty, fmt.Sprintf("echo ready; read n <%s; head -c $n; head -c 1; echo; read word <%s", g.path, g.path)))
		r.awaitOutput(t, "ready")
		text := letters(512 << 10)
		got := receive(t, r.send(t, text, time.Second))
		mustBe(t, got.err, messages.ErrInputNotTaken)
		if got.taken == 0 || got.taken == len(text) || !strings.Contains(got.err.Error(), fmt.Sprintf("%d of %d", got.taken, len(text))) {
			t.Fatalf("taken %d: %v", got.taken, got.err)
		}
		g.open(t, got.taken)
		r.write(t, "!")
		r.awaitOutput(t, "!")
		if want := string(text[:got.taken]) + "!"; !strings.Contains(r.text(), want) {
			t.Errorf("%d bytes were taken, but the child did not read just these", got.taken)
		}
		g.open(t, "end")
		r.awaitEnd(t)
	})
}

func TestAWriteExpiresInTheQueueOfOneThatDoesNot(t *testing.T) {
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		r := start(t, spawner, raw(tty, "echo ready; sleep 1000"))
		r.awaitOutput(t, "ready")
		patient := r.send(t, letters(512<<10), 0)
		hasty := receive(t, r.send(t, []byte("x"), 50*time.Millisecond))
		mustBe(t, hasty.err, messages.ErrInputNotTaken)
		if hasty.taken != 0 || len(patient) != 0 {
			t.Errorf("taken %d; %d outcomes of the first", hasty.taken, len(patient))
		}
		r.EndTree(0)
		r.awaitEnd(t)
		if got := receive(t, patient); got.err == nil || got.taken == 0 {
			t.Errorf("the end of the child: taken %d, %v", got.taken, got.err)
		}
	})
}

func TestInputThatWaitsIsBounded(t *testing.T) {
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		r := start(t, spawner, raw(tty, "echo ready; sleep 1000"))
		r.awaitOutput(t, "ready")
		for patience := 200 * time.Millisecond; ; patience *= 2 { // until the second write comes before the first has expired
			first := r.send(t, letters(ptyio.MaxPendingInput), patience)
			more := receive(t, r.send(t, []byte("x"), patience)).err
			mustBe(t, receive(t, first).err, messages.ErrInputNotTaken)
			if errors.Is(more, messages.ErrInputFull) {
				break
			}
			mustBe(t, more, messages.ErrInputNotTaken)
			if patience > time.Minute {
				t.Fatal("a write above the bound is not refused")
			}
		}
		second := r.send(t, letters(512<<10), 0)
		var waiting []<-chan outcome
		for range ptyio.MaxPendingWrites {
			waiting = append(waiting, r.send(t, []byte("x"), 0))
		}
		mustBe(t, receive(t, r.send(t, []byte("x"), 0)).err, messages.ErrInputFull)
		r.EndTree(0)
		r.awaitEnd(t)
		for _, results := range append(waiting, second) {
			if got := receive(t, results); got.err == nil {
				t.Errorf("a write to an ended child took %d bytes and did not fail", got.taken)
			}
		}
		mustBe(t, receive(t, r.send(t, []byte("x"), 0)).err, messages.ErrClosed)
		mustBe(t, r.closeStdin(t), messages.ErrClosed)
	})
}

func TestEveryWriteIsAnsweredOnceHoweverTheChildEnds(t *testing.T) {
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		ends := []func(r *record){
			func(r *record) { r.EndTree(0) },
			func(r *record) { r.Abandon() },
			func(r *record) { r.CloseStdin(func(error) {}); r.EndTree(0) },
		}
		for _, end := range ends {
			r := start(t, spawner, raw(tty, "echo ready; head -c 20000 >/dev/null; sleep 1000"))
			r.awaitOutput(t, "ready")
			var asked, answered atomic.Int64
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for i := range 200 {
						asked.Add(1)
						r.Write(letters(997), time.Now().Add(time.Duration(i)*time.Millisecond), func(ptyio.Taken, error) { answered.Add(1) })
					}
				})
			}
			end(r)
			all.Wait()
			r.awaitEnd(t)
			eventually(t, "every write is answered", func() bool { return answered.Load() >= asked.Load() })
			if answered.Load() != asked.Load() {
				t.Errorf("%d writes had %d answers", asked.Load(), answered.Load())
			}
		}
	})
}

func TestLinesThatATerminalHoldsArriveWhole(t *testing.T) {
	full := append(letters(ptyio.MaxLine), '\n')
	inputs := map[string][][]byte{
		"the longest line":        {full},
		"behind a short one":      {[]byte("a\n"), full},
		"several, unread":         {full, full, []byte("\n"), full},
		"in pieces":               {full[:1000], full[1000:4000], full[4000:]},
		"many short ones, unread": {bytes.Repeat([]byte("0123456789abcdefghijklmnopqrstuvwxyz\n"), 3000), full},
	}
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		for name, writes := range inputs {
			t.Run(name, func(t *testing.T) {
				g := newGate(t)
				r := start(t, spawner, shell(true, fmt.Sprintf("stty -echo -onlcr; echo ready; read word <%s; exec cat", g.path)))
				r.awaitOutput(t, "ready")
				var results []<-chan outcome
				for _, input := range writes {
					results = append(results, r.send(t, input, patience))
				}
				end := make(chan error, 1)
				r.CloseStdin(func(err error) { end <- err })
				g.open(t, "read")
				for i, result := range results {
					if got := receive(t, result); got.err != nil || got.taken != len(writes[i]) {
						t.Errorf("write %d: taken %d, %v", i, got.taken, got.err)
					}
				}
				if err := receive(t, end); err != nil {
					t.Error(err)
				}
				r.awaitEnd(t)
				want := "ready\n" + string(bytes.Join(writes, nil))
				if got := strings.ReplaceAll(r.text(), "\r", ""); got != want {
					t.Errorf("%d bytes of %d arrived", len(got), len(want))
				}
			})
		}
	})
}

func TestALineThatATerminalCannotHoldIsRefusedAsAWhole(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		r := start(t, spawner, shell(true, "stty -echo; echo ready; exec cat"))
		r.awaitOutput(t, "ready")
		refused := func(input string) {
			t.Helper()
			if got := receive(t, r.send(t, []byte(input), patience)); got.taken != 0 || !strings.Contains(fmt.Sprint(got.err), "4095") {
				t.Errorf("taken %d, %v", got.taken, got.err)
			} else {
				mustBe(t, got.err, messages.ErrLineTooLong)
			}
		}
		refused(string(letters(ptyio.MaxLine+1)) + "\n")
		refused("short\n" + string(letters(ptyio.MaxLine+1)))
		r.write(t, string(letters(4000)))
		refused(string(letters(ptyio.MaxLine-4000+1)) + "\n")
		r.write(t, string(letters(ptyio.MaxLine-4000))+"\n")
		r.awaitOutput(t, string(letters(4000))+string(letters(ptyio.MaxLine-4000)))
		if strings.Contains(r.text(), "short") {
			t.Error("a part of what was refused arrived")
		}
	})
}

func TestTheModeThatTheProgramChoosesDecidesOnLongLines(t *testing.T) {
	long := string(letters(3*ptyio.MaxLine)) + "\n"
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		g := newGate(t)
		script := fmt.Sprintf(`stty -echo; echo line; read word <%[1]s; stty raw; echo raw; head -c %[2]d; read word <%[1]s
stty -raw -echo; echo line again; read word <%[1]s`, g.path, len(long))
		r := start(t, spawner, shell(true, script))
		r.awaitOutput(t, "line")
		mustBe(t, receive(t, r.send(t, []byte(long), patience)).err, messages.ErrLineTooLong)
		g.open(t, "raw")
		r.awaitOutput(t, "raw")
		r.write(t, long)
		r.awaitOutput(t, long)
		mustBe(t, r.closeStdin(t), messages.ErrUnsupported)
		g.open(t, "line")
		r.awaitOutput(t, "line again")
		mustBe(t, receive(t, r.send(t, []byte(long), patience)).err, messages.ErrLineTooLong)
		g.open(t, "end")
		r.awaitEnd(t)
	})
}

func TestTheEndOfInputComesBehindAllThatWasWritten(t *testing.T) {
	everywhere(t, func(t *testing.T, spawner ptyio.Spawner, tty bool) {
		for _, last := range []string{"whole line\n", "unfinished", "quoted\x16", ""} {
			if !tty && strings.HasPrefix(last, "quoted") {
				continue // pipes have no quoting
			}
			l := launch(tty, "cat")
			if tty {
				l = shell(true, "stty -echo; echo ready; exec cat")
			}
			r := start(t, spawner, l)
			want := ""
			if tty {
				want = "ready\r\n"
				r.awaitOutput(t, want)
			}
			var results []<-chan outcome
			for i := range 300 {
				line := fmt.Sprintf("line %d %s\n", i, letters(200))
				want += line
				results = append(results, r.send(t, []byte(line), patience))
			}
			want += last
			if last != "" {
				results = append(results, r.send(t, []byte(last), patience))
			}
			if err := r.closeStdin(t); err != nil {
				t.Fatal(err)
			}
			for _, result := range results {
				if got := receive(t, result); got.err != nil {
					t.Fatal(got.err)
				}
			}
			if status := r.awaitEnd(t); status != messages.StatusExited(0) {
				t.Errorf("cat ended with %v", status)
			}
			got, want := strings.ReplaceAll(r.text(), "\r", ""), strings.ReplaceAll(want, "\r", "")
			if strings.HasPrefix(last, "quoted") { // the quoted character is itself an end-of-file character
				want = strings.ReplaceAll(want, "\x16", "\x04")
			}
			if got != want {
				t.Errorf("after %q: %d bytes of %d came back", last, len(got), len(want))
			}
		}
	})
}

func TestWritesToAClosedInputSayWhy(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		g := newGate(t)
		r := start(t, spawner, shell(false, "cat; echo eof; read word <"+g.path))
		if err := r.closeStdin(t); err != nil {
			t.Fatal(err)
		}
		r.awaitOutput(t, "eof")
		mustBe(t, receive(t, r.send(t, []byte("x"), patience)).err, messages.ErrStdinClosed)
		mustBe(t, r.closeStdin(t), messages.ErrStdinClosed)
		g.open(t, "end")
		r.awaitEnd(t)
		mustBe(t, receive(t, r.send(t, []byte("x"), patience)).err, messages.ErrClosed)

		l := shell(false, "read word <"+g.path)
		l.OpenStdin = false
		r = start(t, spawner, l)
		err := receive(t, r.send(t, []byte("x"), patience)).err
		mustBe(t, err, messages.ErrStdinClosed)
		if !strings.Contains(fmt.Sprint(err), "open input") {
			t.Errorf("no hint: %v", err)
		}
		mustBe(t, r.closeStdin(t), messages.ErrStdinClosed)
		g.open(t, "end")
		r.awaitEnd(t)

		r = start(t, spawner, shell(false, "exec <&-; echo closed; read word <"+g.path))
		r.awaitOutput(t, "closed")
		mustBe(t, receive(t, r.send(t, []byte("x"), patience)).err, messages.ErrStdinClosed)
		g.open(t, "end")
		r.awaitEnd(t)
	})
}
