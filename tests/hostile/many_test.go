//go:build linux

package hostile_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// Eight goroutines end one program while others use it in every other way.
func TestTerminationByMany(t *testing.T) {
	i := 0
	for name, script := range map[string]string{
		"obedient":      `echo up; sleep $1`,
		"deaf":          `trap "" TERM HUP; echo up; while :; do sleep 0.1; done`,
		"stopped":       `echo up; kill -STOP $$`,
		"with children": `for i in {1..10}; do setsid sleep $1 & done; echo up; wait`,
		"flooding":      `echo up; while :; do echo $1; done`,
		"ending":        `echo up; exit 3`,
	} {
		for _, tty := range []bool{false, true} {
			if i++; thinned(i) {
				continue
			}
			t.Run(fmt.Sprintf("%s/tty=%v", name, tty), func(t *testing.T) {
				ledger.enter(t)
				for range sample(30) {
					t.Run("", func(t *testing.T) { terminateByMany(t, tty, script) })
				}
			})
		}
	}
}

func terminateByMany(t *testing.T, tty bool, script string) {
	h := open(t, execbus.Options{})
	p := h.run(h.bash(tty, script), false)
	p.awaitOutput("up")
	var all sync.WaitGroup
	begin := make(chan struct{})
	graces := []time.Duration{0, 500 * time.Millisecond, time.Millisecond, 20 * time.Millisecond, time.Second, 0, 500 * time.Millisecond, 10 * time.Second}
	records := make(chan messages.EndRecord, len(graces))
	for _, grace := range graces {
		all.Go(func() {
			<-begin
			record, err := h.Terminate(h.ctx, messages.Terminate{Process: p.id, Grace: new(grace)})
			switch {
			case err == nil:
				records <- *record
			case codeOf(err) != messages.ErrProcessEnded:
				t.Errorf("terminate: %v", err)
			}
		})
	}
	for name, operation := range operations(h, p.id) {
		if name == "terminate" {
			continue
		}
		all.Go(func() {
			<-begin
			switch code := codeOf(operation()); code {
			case "", messages.ErrProcessEnded, messages.ErrClosed, messages.ErrStdinClosed, messages.ErrInputNotTaken,
				messages.ErrNotATerminal, messages.ErrUnsupported, messages.ErrWrongState:
			default:
				t.Errorf("%s meanwhile: %q", name, code)
			}
		})
	}
	close(begin)
	all.Wait()
	close(records)
	ended := p.end()
	note(parent{t}, "%s", ended.Cause)
	if ended.Cause != messages.CauseTerminated && ended.Cause != messages.CauseExited {
		t.Error(ended.String())
	}
	for record := range records {
		if record.String() != ended.EndRecord.String() || record.Tree.Ended != ended.Tree.Ended {
			t.Errorf("one was told %s, the event says %s", record.String(), ended.String())
		}
	}
	h.reaped()
}

// Eight callers do all kinds of things. Meanwhile several callers close the session, or the whole runtime.
func TestEverythingAtOnce(t *testing.T) {
	ledger.enter(t)
	for i := range sample(100) {
		t.Run("", func(t *testing.T) { closeUnderThem(t, rand.New(rand.NewPCG(*seed, uint64(i))), i%2 == 0) })
	}
	note(t, "every call was answered: %s, %s or %s after the end", "ok", messages.ErrClosed, messages.ErrProcessEnded)
}

func closeUnderThem(t *testing.T, random *rand.Rand, runtimeToo bool) {
	h := open(t, execbus.Options{})
	scripts := []string{`sleep $1`, `(setsid sleep $1 &); exit 0`, `trap "" TERM; sleep $1; sleep $1`, `exit 3`, `kill -KILL $$`, `echo $1; read x`}
	var all sync.WaitGroup
	enough := 20 + random.IntN(60)
	calls := make(chan struct{}, 1000)
	for caller := range 8 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(*seed, uint64(caller)))
			var id messages.ProcessID
			for {
				var err error
				switch random.IntN(6) {
				case 0, 1, 2:
					var p *execbus.Process
					if p, err = h.Start(h.ctx, h.bash(random.IntN(2) == 0, scripts[random.IntN(len(scripts))])); err == nil {
						id = p.ID()
					}
				case 3:
					err = h.Signal(h.ctx, messages.Signal{Process: id, Signal: syscall.SIGCONT, Tree: true})
				case 4:
					ctx, cancel := context.WithTimeout(h.ctx, time.Millisecond)
					_, err = h.Poll(ctx, messages.Poll{Process: id})
					cancel()
				case 5:
					_, err = h.Terminate(h.ctx, messages.Terminate{Process: id, Grace: new(time.Duration)})
				}
				select {
				case calls <- struct{}{}:
				default:
				}
				switch code := codeOf(err); code {
				case "", messages.ErrUnknownProcess, messages.ErrProcessEnded, messages.ErrCancelled, messages.ErrLimitReached:
				case messages.ErrClosed:
					if _, err := h.List(h.ctx); codeOf(err) == messages.ErrClosed {
						return // the session has closed; the error of a closed child would be ErrClosed, too
					}
				default:
					t.Errorf("a call was told %q: %v", code, err)
				}
				if h.ctx.Err() != nil {
					t.Error("the session never closed")
					return
				}
			}
		})
	}
	for range enough {
		<-calls
	}
	for i := range 4 {
		all.Go(func() {
			err := h.Close(h.ctx)
			if runtimeToo && i%2 == 0 {
				err = h.runtime.Shutdown(h.ctx)
			}
			if err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	all.Wait()
	eventually(t, "everything ends", func() bool { return len(living(h.token)) == 0 })
}

// A command is ended while the spawner is starting it. After the answer no process of it may live or be started.
func TestTerminationDuringTheStart(t *testing.T) {
	ledger.enter(t)
	h := open(t, execbus.Options{})
	h.Session = h.session(execbus.SessionOptions{DeterministicIDs: true, Dir: h.dir})
	outcomes := map[messages.ErrorCode]int{}
	late := 0
	for id := messages.ProcessID(1000); id < 1000+messages.ProcessID(sample(2000)); id++ {
		token := newToken()
		asked := make(chan messages.ErrorCode)
		go func() {
			_, err := h.Start(h.ctx, messages.ExecCommand{Argv: []string{"sleep", token}})
			asked <- codeOf(err)
		}()
		var err error
		for codeOf(err) == "" {
			if _, err = h.Records(h.ctx); err != nil {
				t.Fatal(err)
			}
			if _, err = h.Terminate(h.ctx, messages.Terminate{Process: id, Grace: new(time.Duration)}); err == nil {
				break
			}
			if codeOf(err) == messages.ErrUnknownProcess {
				err = nil
			}
		}
		if left := living(token); len(left) > 0 {
			late++
			t.Errorf("terminated, but %v", left)
		}
		outcomes[<-asked]++
	}
	note(t, "Start was told %v; %d lived on after Terminate was answered", outcomes, late)
}
