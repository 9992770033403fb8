package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const long = time.Minute

// outbox returns an outbox with a connection that only the test reads.
func outbox(t *testing.T, patience time.Duration) (o *Outbox, other *Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewConn(fds[0], patience)
	if err != nil {
		t.Fatal(err)
	}
	if other, err = NewConn(fds[1], 0); err != nil {
		t.Fatal(err)
	}
	o = NewOutbox(a)
	t.Cleanup(func() { _, _ = a.Close(), other.Close(); o.Abort() })
	return o, other
}

func large(id uint64, size int) *Request {
	return &Request{ID: id, Start: &Start{Argv: []string{strings.Repeat("x", size)}}}
}

// stuck fills the socket with a start of the given size.
func (o *Outbox) stuck(t *testing.T, id uint64, size int) {
	t.Helper()
	if err := o.Start(t.Context(), large(id, size), fails(t)); err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(long); ; time.Sleep(time.Millisecond) {
		o.mu.Lock()
		writes := len(o.starts) > 0 && o.starts[0].writing || o.state == outboxFinished // it has been given up already
		o.mu.Unlock()
		if writes {
			return
		}
		if time.Now().After(late) {
			t.Fatal("the start is not being written")
		}
	}
}

func fails(t *testing.T) func(error) {
	return func(err error) { t.Errorf("a start failed: %v", err) }
}

func receive(t *testing.T, c *Conn) (request Request) {
	t.Helper()
	if err := c.Receive(&request); err != nil {
		t.Fatal(err)
	}
	return request
}

func TestSignalsAndEndsGoBeforeTheStartsThatWait(t *testing.T) {
	o, other := outbox(t, 0)
	o.stuck(t, 1, 6<<20)
	if err := o.Start(t.Context(), large(2, 10), fails(t)); err != nil {
		t.Fatal(err)
	}
	for range 3 { // equal signals that wait are one, as in the kernel; real-time ones are not
		for _, number := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, 40} {
			if err := o.Signal(7, Signal{Number: number}); err != nil {
				t.Fatal(err)
			}
		}
		o.End(8, End{Grace: time.Minute})
		o.End(8, End{Grace: time.Second})
		o.End(8, End{Grace: time.Hour})
	}
	if first := receive(t, other); first.ID != 1 {
		t.Errorf("first came %d", first.ID)
	}
	var got []syscall.Signal
	for range 6 {
		switch r := receive(t, other); {
		case r.Signal != nil && r.ID == 7:
			got = append(got, r.Signal.Number)
		case r.End != nil && r.ID == 8 && r.End.Grace == time.Second:
			got = append(got, 0)
		default:
			t.Errorf("came %+v", r)
		}
	}
	want := []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, 40, 0, 40, 40}
	if !slices.Equal(got, want) {
		t.Errorf("came %v instead of %v", got, want)
	}
	if last := receive(t, other); last.ID != 2 {
		t.Errorf("last came %d", last.ID)
	}
	if err := o.Signal(7, Signal{Number: syscall.SIGUSR1}); err != nil { // a signal that was written is not merged with another
		t.Fatal(err)
	}
	if r := receive(t, other); r.ID != 7 {
		t.Errorf("came %+v", r)
	}
}

func TestSignalsAreBoundedAndEndsAreNot(t *testing.T) {
	o, _ := outbox(t, 0)
	o.stuck(t, 1, 6<<20)
	for group := range maxSignals {
		if err := o.Signal(7, Signal{Number: syscall.SIGUSR1, Group: group}); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.Signal(7, Signal{Number: syscall.SIGUSR2}); !errors.Is(err, ErrFull) {
		t.Errorf("one signal more: %v", err)
	}
	if err := o.Signal(7, Signal{Number: syscall.SIGUSR1}); err != nil {
		t.Errorf("a signal that waits already: %v", err)
	}
	o.End(7, End{})
	if last := o.urgent[len(o.urgent)-1]; last.End == nil {
		t.Error("the end was lost")
	}
}

func TestAStartWaitsForRoomInTheQueue(t *testing.T) {
	o, other := outbox(t, 0)
	o.stuck(t, 1, 6<<20)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := o.Start(ctx, large(3, 3<<20), fails(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	taken := make(chan error, 1)
	go func() { taken <- o.Start(t.Context(), large(4, 3<<20), fails(t)) }()
	receive(t, other)
	if err := <-taken; err != nil {
		t.Errorf("when there is room: %v", err)
	}
	if r := receive(t, other); r.ID != 4 {
		t.Errorf("came %d", r.ID)
	}
}

func TestDescriptorsThatWaitAreBounded(t *testing.T) {
	o, _ := outbox(t, 0)
	o.stuck(t, 1, 6<<20)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // it ends only a wait
	taken := 0
	for id := uint64(2); ; id++ {
		if err = o.Start(ctx, large(id, 1), fails(t), slicesRepeat(null, 32)...); err != nil {
			break
		}
		taken++
	}
	if !errors.Is(err, context.Canceled) || taken != maxStartFiles/32 {
		t.Errorf("%d starts with 32 descriptors were taken, then %v", taken, err)
	}
}

func TestAStartThatWaitsIsWithdrawn(t *testing.T) {
	o, other := outbox(t, 0)
	o.stuck(t, 1, 6<<20)
	for id := uint64(2); id < 5; id++ {
		if err := o.Start(t.Context(), large(id, 10), fails(t)); err != nil {
			t.Fatal(err)
		}
	}
	if o.Withdraw(1) || !o.Withdraw(3) || o.Withdraw(3) {
		t.Error("one that is being written, one that waits, and one that is gone are confused")
	}
	for _, want := range []uint64{1, 2, 4} {
		if r := receive(t, other); r.ID != want {
			t.Errorf("came %d instead of %d", r.ID, want)
		}
	}
}

func TestAStartWithAClosedFileFailsAlone(t *testing.T) {
	o, other := outbox(t, 0)
	closed, _ := os.Open(os.DevNull)
	_ = closed.Close()
	o.stuck(t, 2, 6<<20)
	failed := make(chan error, 1)
	if err := o.Start(t.Context(), large(3, 1), func(err error) { failed <- err }, closed); err != nil {
		t.Fatal(err)
	}
	if err := o.Start(t.Context(), large(4, 1), fails(t)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []uint64{2, 4} {
		if r := receive(t, other); r.ID != want {
			t.Errorf("came %d instead of %d", r.ID, want)
		}
	}
	if err := <-failed; err == nil || errors.Is(err, ErrBroken) {
		t.Errorf("from the queue: %v", err)
	}
}

func TestPatienceCountsFromTheLastProgress(t *testing.T) {
	patience := 250 * time.Millisecond
	for err := readSlowly(t, patience); err != nil; err = readSlowly(t, patience) {
		if patience *= 2; patience > 16*time.Second { // a busy machine may keep the reader from reading for longer than the patience
			t.Fatal(err)
		}
	}
}

// readSlowly takes longer than the patience to read a message, but not for any part of it.
func readSlowly(t *testing.T, patience time.Duration) error {
	t.Helper()
	o, other := outbox(t, patience)
	o.stuck(t, 1, 6<<20)
	begin, rest := time.Now(), 6<<20
	for buf := make([]byte, 1<<20); rest > 0; rest -= len(buf) {
		time.Sleep(patience / 3)
		if _, err := io.ReadFull(reader{other}, buf); err != nil {
			return fmt.Errorf("%w with %d bytes left", err, rest)
		}
	}
	if took := time.Since(begin); took < patience {
		t.Errorf("it took only %v", took)
	}
	if err := o.Signal(1, Signal{}); err != nil {
		return fmt.Errorf("the connection was given up: %w", err)
	}
	return nil
}

func TestAConnectionThatNobodyReadsIsGivenUp(t *testing.T) {
	o, _ := outbox(t, 20*time.Millisecond)
	o.stuck(t, 1, 6<<20)
	waits := make(chan error, 1)
	go func() { waits <- o.Start(t.Context(), large(2, 3<<20), fails(t)) }()
	select {
	case <-o.done:
	case <-time.After(long):
		t.Fatal("it was never given up")
	}
	if err := <-waits; err != nil && !errors.Is(err, ErrBroken) { // room may have come a moment before
		t.Errorf("who waited for room: %v", err)
	}
	if err := o.Signal(1, Signal{}); !errors.Is(err, ErrBroken) {
		t.Errorf("afterwards: %v", err)
	}
	if err := o.Start(t.Context(), large(3, 1), fails(t)); !errors.Is(err, ErrBroken) {
		t.Errorf("afterwards: %v", err)
	}
}

func TestCloseWritesWhatIsUrgentAndDropsTheStarts(t *testing.T) {
	o, other := outbox(t, 0)
	o.stuck(t, 1, 6<<20)
	if err := o.Start(t.Context(), large(2, 10), fails(t)); err != nil {
		t.Fatal(err)
	}
	if err := o.Signal(7, Signal{Number: syscall.SIGUSR1}); err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() { o.Close(long); close(closed) }()
	for late := time.Now().Add(long); o.Signal(8, Signal{}) == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("it still takes signals")
		}
	}
	var came []uint64
	request := Request{}
	err := other.Receive(&request)
	for ; err == nil; err = other.Receive(&request) {
		came = append(came, request.ID)
		request = Request{}
	}
	if !errors.Is(err, io.EOF) || !slices.Equal(slices.Compact(came), []uint64{1, 7, 8}) && !slices.Equal(came, []uint64{1, 7}) {
		t.Errorf("came %v, then %v", came, err)
	}
	<-closed
}

func TestTheEndOfFileComesAfterTheAnswers(t *testing.T) {
	o, other := outbox(t, 0)
	o.conn.sending.Lock() // as if another message were being written
	go o.Judge(7, Judged{Number: 8})
	until := func(what string) {
		pattern := regexp.MustCompile(what)
		for stacks := make([]byte, 1<<20); !pattern.Match(stacks[:runtime.Stack(stacks, true)]); runtime.Gosched() {
			select {
			case <-o.done:
				t.Fatal("an answer is left out")
			default:
			}
		}
	}
	until(`sendEncoded\(.*\n.*\n.*Outbox\)\.Judge\(`)
	closed := make(chan struct{})
	go func() { o.Close(long); close(closed) }()
	until(`WaitGroup\)\.Wait\(.*\n.*\n.*Outbox\)\.write\(`)
	o.conn.sending.Unlock()
	if got := receive(t, other); got.ID != 7 || got.Judged == nil || got.Judged.Number != 8 {
		t.Errorf("%+v", got)
	}
	if err := other.Receive(&Request{}); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	<-closed
}

func TestCloseDoesNotWaitForOneWhoDoesNotRead(t *testing.T) {
	o, other := outbox(t, 0)
	o.stuck(t, 1, 6<<20)
	o.Close(10 * time.Millisecond)
	if err := other.Receive(&Request{}); err != io.ErrUnexpectedEOF && err != io.EOF { // of a slow writer nothing comes
		t.Errorf("a message that was cut off: %v", err)
	}
}

func TestManyWhoSayThingsAtOnceMixNoMessages(t *testing.T) {
	o, other := outbox(t, 0)
	const senders, each = 8, 40
	for sender := range senders {
		go func() {
			for i := range each {
				id := uint64(1 + sender*each + i)
				if i%2 == 0 {
					if err := o.Signal(id, Signal{Number: 1, Group: i}); err != nil {
						t.Error(err)
					}
					continue
				}
				if err := o.Start(t.Context(), large(id, i*i*200), fails(t)); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	seen := map[uint64]bool{}
	for range senders * each {
		r := receive(t, other)
		if seen[r.ID] || (r.Start != nil) == (r.Signal != nil) {
			t.Fatalf("request %d", r.ID)
		}
		seen[r.ID] = true
	}
	waits := func() int {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.bytes + o.files + len(o.starts)
	}
	for late := time.Now().Add(long); waits() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%d bytes, descriptors and starts wait", waits())
		}
	}
}

func TestAStartIsHeldUntilItIsWrittenAsAWhole(t *testing.T) {
	o, other := outbox(t, 0)
	if err := o.Start(t.Context(), large(1, 10), fails(t)); err != nil {
		t.Errorf("a small start: %v", err)
	}
	o.stuck(t, 2, 6<<20)
	if err := o.Start(t.Context(), large(3, 10), fails(t)); err != nil || !o.Holds(2) || !o.Holds(3) {
		t.Errorf("behind a large one: %v, held %v and %v", err, o.Holds(2), o.Holds(3))
	}
	released := make(chan bool)
	go func() {
		o.AwaitFiles(1)
		o.AwaitFiles(2)
		o.AwaitFiles(3)
		released <- o.Holds(2) || o.Holds(3)
	}()
	for range 3 {
		receive(t, other)
	}
	select {
	case held := <-released:
		if held {
			t.Error("nobody waited for starts that are held")
		}
	case <-time.After(long):
		t.Fatal("starts that were received are held")
	}
}

func TestNobodyWaitsForTheFilesOfAnOutboxThatHasEnded(t *testing.T) {
	o, _ := outbox(t, 0)
	o.stuck(t, 1, 6<<20)
	ended := make(chan struct{})
	go func() {
		o.AwaitFiles(1)
		close(ended)
	}()
	_ = o.conn.Close()
	o.Abort()
	select {
	case <-ended:
	case <-time.After(long):
		t.Error("it still waits")
	}
}

// A message that was half written must be completed even if this process has no descriptor left for the wait.
func TestAWriteWaitsForRoomWithoutADescriptor(t *testing.T) {
	o, other := outbox(t, 0)
	var before unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &before); err != nil {
		t.Fatal(err)
	}
	none := unix.Rlimit{Cur: 3, Max: before.Max}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &none, nil); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Prlimit(0, unix.RLIMIT_NOFILE, &before, nil) }()
	if err := o.Start(t.Context(), large(1, 6<<20), fails(t)); err != nil {
		t.Fatal(err)
	}
	waits := regexp.MustCompile(`waitWrite\(`)
	for stacks := make([]byte, 1<<20); !waits.Match(stacks[:runtime.Stack(stacks, true)]); runtime.Gosched() {
		select {
		case <-o.done:
			t.Fatal("the connection was given up")
		default:
		}
	}
	if got := receive(t, other); got.ID != 1 {
		t.Errorf("%d was received", got.ID)
	}
}
