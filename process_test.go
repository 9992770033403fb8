package execbus_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

func start(t testing.TB, session *execbus.Session, command messages.ExecCommand) *execbus.Process {
	t.Helper()
	p, err := session.Start(patient(t), command)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// said is all that a process says, and an error if not all of it can be had.
func said(p *execbus.Process, ctx context.Context) (string, error) {
	var all strings.Builder
	for event, err := range p.Follow(ctx, 0) {
		switch e := event.(type) {
		case messages.OutputDelta:
			all.Write(e.Bytes)
		case messages.CaughtUp:
		default:
			return all.String(), errors.Join(err, fmt.Errorf("behind %d bytes comes %#v", all.Len(), event))
		}
	}
	return all.String(), nil
}

// commandsToFollow is how many commands are followed; more where somebody has the time: EXECBUS_COMMANDS=10000.
func commandsToFollow(t *testing.T) int {
	if text := os.Getenv("EXECBUS_COMMANDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return 500
}

func TestWhatIsStartedCanBeFollowedFromTheFirstByte(t *testing.T) {
	running := goleak.IgnoreCurrent()
	rt, err := execbus.Start(execbus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	session := openSession(t, rt, execbus.SessionOptions{})
	jobs := make(chan int)
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for i := range jobs {
				want := fmt.Sprintf("hi %d\n", i)
				p, err := session.Start(patient(t), messages.ExecCommand{Argv: []string{"echo", "hi", strconv.Itoa(i)}})
				if err != nil {
					t.Error(err)
					continue
				}
				if got, err := said(p, patient(t)); got != want || err != nil {
					t.Errorf("it said %q (%v), want %q", got, err, want)
				}
				if status, err := p.Wait(patient(t)); status != messages.StatusExited(0) || err != nil {
					t.Errorf("it exited with %v (%v)", status, err)
				}
			}
		})
	}
	for i := range commandsToFollow(t) {
		jobs <- i
	}
	close(jobs)
	workers.Wait()
	eventually(t, "no handle has a goroutine", func() bool {
		stacks := make([]byte, 1<<20)
		return !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("execbus.(*Process)"))
	})
	if err := rt.Shutdown(patient(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no goroutine is left", func() bool { return goleak.Find(running) == nil })
}

func TestAHandleTellsWhatItIs(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	p := start(t, session, messages.ExecCommand{Call: "c1", Script: "echo $$; read x; exit 3", TTY: true})
	other := start(t, session, messages.ExecCommand{Call: "c1", Argv: []string{"sleep", "1000"}}) // names of calls may be used again
	if got := follow(t, p, 0).await("\n"); strings.TrimSpace(got) != strconv.Itoa(p.PID()) {
		t.Errorf("it says it is %q, and the handle %d", got, p.PID())
	}
	info, err := p.Info(patient(t))
	if err != nil || info.Process != p.ID() || info.PID != p.PID() || info.Call != "c1" || p.Call() != "c1" || info.State != messages.StateRunning {
		t.Errorf("%+v, %v", info, err)
	}
	again, err := session.Process(patient(t), p.ID())
	if err != nil || again.ID() != p.ID() || again.PID() != p.PID() || again.Call() != "c1" {
		t.Errorf("%+v, %v", again, err)
	}
	for _, handle := range []*execbus.Process{p, again, other} {
		if status, exited := handle.Status(); exited || status != messages.StatusNone() {
			t.Errorf("it has exited with %v", status)
		}
	}
	if err := p.Resize(patient(t), messages.Size{Rows: 9, Cols: 9}); err != nil {
		t.Error(err)
	}
	write(t, again, "\n")
	for _, handle := range []*execbus.Process{p, again} {
		wantStatus(t, handle, messages.StatusExited(3))
	}
	if err := other.Signal(patient(t), syscall.SIGUSR1); err != nil {
		t.Error(err)
	}
	wantStatus(t, other, messages.StatusSignaled(syscall.SIGUSR1))
	if record, err := other.Terminate(patient(t)); err != nil || record == nil || record.Status != messages.StatusSignaled(syscall.SIGUSR1) {
		t.Errorf("%v, %v", record, err)
	}
	result, err := p.Poll(patient(t), messages.Poll{})
	if err != nil || result.Process != p.ID() || result.Running {
		t.Errorf("%+v, %v", result, err)
	}
	page, err := p.Read(patient(t), messages.ReadOutput{Tail: 10})
	if err != nil || !page.Ended {
		t.Errorf("%+v, %v", page, err)
	}
	_, err = session.Process(patient(t), 1)
	wantError(t, err, messages.ErrUnknownProcess)
}

func TestTheContextOfAStartBoundsTheStart(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	p, err := session.Start(ctx, messages.ExecCommand{Argv: []string{"cat"}, OpenStdin: true})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	write(t, p, "still here\n")
	follow(t, p, 0).await("still here\n")
	_, err = session.Start(ctx, messages.ExecCommand{Argv: []string{"cat"}})
	wantError(t, err, messages.ErrCancelled)
	if ids := listed(t, session); len(ids) != 1 {
		t.Errorf("there are %v", ids)
	}
	if record, err := p.Terminate(patient(t)); err != nil || record.By != messages.TerminatedByUser {
		t.Errorf("%v, %v", record, err)
	}
}

// noise is a line for each number.
func noise(lines int) string {
	var all strings.Builder
	for i := range lines {
		fmt.Fprintln(&all, i+1)
	}
	return all.String()
}

func TestFollowersGetHistoryAndThenWhatComes(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	const lines = 20_000
	want := noise(lines)
	p := start(t, session, messages.ExecCommand{Script: fmt.Sprintf("seq %d; read x; seq %d", lines, lines), OpenStdin: true})
	early := follow(t, p, 0)
	early.await(want[len(want)-10:])
	late := follow(t, p, int64(len(want)/2)+3)
	late.await(want[len(want)-10:])
	after := follow(t, p, int64(len(want))) // waits
	write(t, p, "\n")
	for name, f := range map[string]*follower{"early": early, "late": late, "behind": after} {
		if got := f.rest()[messages.StreamStdout]; got != want {
			t.Errorf("%s: %d bytes, want %d", name, len(got), len(want))
		}
	}
	if got, err := said(p, patient(t)); err != nil || got != want+want {
		t.Errorf("after the end: %d bytes, %v; want %d", len(got), err, 2*len(want))
	}
}

func TestAFollowerThatIsTooSlowIsToldWhatItMissed(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	const lines = 2_000_000 // some 15 MiB
	p := start(t, session, messages.ExecCommand{Argv: []string{"seq", strconv.Itoa(lines)}})
	var at int64
	var gaps int
	sum := sha256.New()
	kept := sha256.New()
	whole := []byte(noise(lines))
	for event, err := range p.Follow(patient(t), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if at == 0 {
			if _, err := p.Wait(patient(t)); err != nil { // meanwhile everything else is said
				t.Fatal(err)
			}
		}
		switch e := event.(type) {
		case messages.OutputDelta:
			if e.Offset != at {
				t.Fatalf("behind byte %d comes byte %d", at, e.Offset)
			}
			sum.Write(e.Bytes)
			kept.Write(whole[at : at+int64(len(e.Bytes))])
			at += int64(len(e.Bytes))
		case messages.Gap:
			gaps++
			if e.First != at || e.End <= e.First || e.Deltas < 1 || e.Process != p.ID() {
				t.Errorf("at byte %d: %+v", at, e)
			}
			at = e.End
		}
	}
	if gaps != 1 || at != int64(len(whole)) || !bytes.Equal(sum.Sum(nil), kept.Sum(nil)) {
		t.Errorf("%d gaps, and the end is at byte %d, want one and %d", gaps, at, len(whole))
	}
}

// Two readers begin at different times: each is told once, at the right byte, where what it reads becomes new.
func TestFollowTellsWhereHistoryEnds(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	p := start(t, session, messages.ExecCommand{Argv: []string{"bash", "-c", "read a; echo one; read a; echo two; read a"}, OpenStdin: true})
	first, stopFirst := iter.Pull2(p.Follow(patient(t), 0))
	defer stopFirst()
	wants := func(next func() (messages.Event, error, bool), text string, at int64) {
		t.Helper()
		event, err, _ := next()
		switch e := event.(type) {
		case messages.OutputDelta:
			if string(e.Bytes) != text || e.Offset != at {
				t.Errorf("it is %q at %d, want %q at %d", e.Bytes, e.Offset, text, at)
			}
		case messages.CaughtUp:
			if text != "" || e.Offset != at || e.Process != p.ID() {
				t.Errorf("history ends at %d, want %q at %d", e.Offset, text, at)
			}
		default:
			t.Fatalf("%#v, %v", event, err)
		}
	}
	wants(first, "", 0)
	write(t, p, "\n")
	wants(first, "one\n", 0)
	second, stopSecond := iter.Pull2(p.Follow(patient(t), 1))
	defer stopSecond()
	wants(second, "ne\n", 1)
	wants(second, "", 4)
	write(t, p, "\n")
	wants(first, "two\n", 4)
	wants(second, "two\n", 4)
	write(t, p, "\n")
	wantStatus(t, p, messages.StatusExited(0))
	third, stopThird := iter.Pull2(p.Follow(patient(t), 0))
	defer stopThird()
	for _, part := range []string{"one\n", "two\n"} {
		wants(third, part, map[string]int64{"one\n": 0, "two\n": 4}[part])
	}
	wants(third, "", 8)
	for name, next := range map[string]func() (messages.Event, error, bool){"first": first, "second": second, "third": third} {
		if event, err, more := next(); more {
			t.Errorf("the %s gets %#v, %v", name, event, err)
		}
	}
}

func TestFollowEnds(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	p := start(t, session, messages.ExecCommand{Argv: []string{"sleep", "1000"}})
	fails := func(ctx context.Context, from int64, want messages.ErrorCode) {
		t.Helper()
		for event, err := range p.Follow(ctx, from) {
			if _, is := event.(messages.CaughtUp); is && from == 0 {
				continue
			}
			if event != nil {
				t.Errorf("there is a %#v", event)
			}
			wantError(t, err, want)
		}
	}
	fails(patient(t), 1, messages.ErrOutputUnretained)
	fails(patient(t), -1, messages.ErrInvalidRequest)
	ctx, begun, cancel := begins(t)
	done := make(chan struct{})
	go func() { defer close(done); fails(ctx, 0, messages.ErrCancelled) }()
	<-begun
	cancel()
	<-done
	if err := session.Close(patient(t)); err != nil {
		t.Fatal(err)
	}
	fails(patient(t), 0, messages.ErrClosed)
}

func TestInputIsCopiedAsFastAsItIsRead(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	input := []byte(noise(500_000)) // more than may wait
	p := start(t, session, messages.ExecCommand{Script: "sleep 0.1; sha256sum", OpenStdin: true})
	if n, err := io.Copy(p, bytes.NewReader(input)); err != nil || n != int64(len(input)) {
		t.Fatalf("%d of %d bytes: %v", n, len(input), err)
	}
	if err := p.CloseStdin(patient(t)); err != nil {
		t.Fatal(err)
	}
	if got, err := said(p, patient(t)); err != nil || !strings.HasPrefix(got, fmt.Sprintf("%x ", sha256.Sum256(input))) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestWritersShareTheRoomThatThereIs(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	p := start(t, session, messages.ExecCommand{Script: "head -c 6000000 | wc -c", OpenStdin: true})
	var writers sync.WaitGroup
	for range 30 { // of which 16 fill what may wait
		writers.Go(func() {
			if n, err := p.Write(make([]byte, 200_000)); n != 200_000 || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
	writers.Wait()
	if got, err := said(p, patient(t)); err != nil || strings.TrimSpace(got) != "6000000" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAWriteThatIsNotTakenSaysHowMuchWas(t *testing.T) {
	t.Parallel()
	session := newSession(t, execbus.SessionOptions{})
	p := start(t, session, messages.ExecCommand{Script: "head -c 100000 > /dev/null", OpenStdin: true})
	n, err := p.Write(make([]byte, 10<<20))
	if err == nil || n < 100_000 || n > 1<<20 {
		t.Errorf("%d bytes were taken, %v", n, err)
	}
	line := start(t, session, messages.ExecCommand{Argv: []string{"cat"}, TTY: true})
	n, err = io.WriteString(line, strings.Repeat("x", 5000))
	wantError(t, err, messages.ErrLineTooLong)
	if n != 0 {
		t.Errorf("%d bytes were taken", n)
	}
	none := start(t, session, messages.ExecCommand{Argv: []string{"sleep", "1000"}})
	_, err = io.WriteString(none, "x")
	wantError(t, err, messages.ErrStdinClosed)
}
