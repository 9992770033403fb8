package hostcode

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"
)

// awkward cannot be printed, and says so with what cannot be printed either.
type awkward struct{}

func (awkward) String() string { panic(awkward{}) }

func TestACallHasOneAnswer(t *testing.T) {
	t.Parallel()
	own := errors.New("its own")
	for name, c := range map[string]struct {
		do   func() (int, error)
		want string
	}{
		"result":  {func() (int, error) { return 7, nil }, ""},
		"error":   {func() (int, error) { return 0, own }, "its own"},
		"panic":   {func() (int, error) { panic("on purpose") }, "the spawner panicked: on purpose"},
		"awkward": {func() (int, error) { panic(awkward{}) }, "the spawner panicked: it cannot be printed"},
		"end":     {func() (int, error) { runtime.Goexit(); return 0, nil }, "the spawner ended its goroutine"},
	} {
		type key struct{}
		call := Call[int]{Who: "the spawner", Do: func(ctx context.Context) (int, error) {
			if ctx.Value(key{}) != name {
				t.Errorf("%s: the context is another one", name)
			}
			return c.do()
		}, Late: func(int, error) { t.Errorf("%s is late", name) }}
		value, err := call.Wait(context.WithValue(t.Context(), key{}, name))
		if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want || err == nil && value != 7 {
			t.Errorf("%s: %d, %v", name, value, err)
		}
		failure, failed := errors.AsType[*Failure](err)
		if failed != (c.want != "" && err != own) || failed && failure.Hangs || failed && !strings.HasPrefix(failure.Error(), "the spawner ") {
			t.Errorf("%s: %T", name, err)
		}
	}
}

func TestCodeThatDoesNotReturnIsLeftAndItsResultEnded(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func() (int, error){
		"result": func() (int, error) { return 7, nil },
		"panic":  func() (int, error) { panic("late") },
	} {
		gate, late := make(chan struct{}), make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		call := Call[int]{Do: func(context.Context) (int, error) {
			cancel()
			<-gate
			return do()
		}, Patience: time.Millisecond, Late: func(value int, err error) {
			if err == nil && value != 7 {
				t.Errorf("late came %d", value)
			}
			late <- err
		}}
		_, err := call.Wait(ctx)
		if failure, failed := errors.AsType[*Failure](err); !failed || !failure.Hangs || err.Error() != "it did not answer in time" {
			t.Errorf("%s: %v", name, err)
		}
		close(gate)
		if err := <-late; (err == nil) != (name == "result") {
			t.Errorf("%s: late came %v", name, err)
		}
	}
}

// A counter of the calls that hang is raised before it is lowered.
func TestALateResultComesAfterTheAnswer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	answering, answered, gate, late := make(chan struct{}), false, make(chan struct{}), make(chan bool)
	call := Call[int]{Do: func(context.Context) (int, error) {
		cancel()
		<-gate
		return 7, nil
	}, Late: func(int, error) { late <- answered }}
	call.Go(ctx, func(int, error) {
		close(answering)
		for range 100 { // the code has returned meanwhile
			runtime.Gosched()
		}
		answered = true
	})
	<-answering
	close(gate)
	if !<-late {
		t.Error("the late result came first")
	}
}

// The context ends first, and the code still has the time that it needs.
func TestPatienceBeginsWhenTheContextEnds(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	call := Call[int]{Do: func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 7, nil
	}, Patience: time.Hour}
	if value, err := call.Wait(ended); value != 7 || err != nil {
		t.Errorf("%d, %v", value, err)
	}
}

// The end of the context and the return race, and still there is one answer, and every result reaches somebody.
func TestAResultIsEitherTheAnswerOrLate(t *testing.T) {
	t.Parallel()
	for range 1000 {
		ctx, cancel := context.WithCancel(t.Context())
		results, answers := make(chan int, 4), make(chan error, 4)
		call := Call[int]{Do: func(context.Context) (int, error) {
			cancel()
			return 7, nil
		}, Late: func(value int, _ error) { results <- value }}
		call.Go(ctx, func(value int, err error) {
			if err == nil {
				results <- value
			}
			answers <- err
		})
		if value := <-results; value != 7 {
			t.Fatal(value)
		}
		<-answers
		if len(results)+len(answers) > 0 {
			t.Fatal("there were two")
		}
	}
}

func TestAPanicOfCodeWithoutAResultIsIgnored(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	Run(func() {
		defer close(done)
		panic("nobody cares")
	})
	<-done
}

// watched is a context that counts what waits for its end.
type watched struct {
	context.Context
	waiting chan struct{}
}

func (w watched) Done() <-chan struct{} { return make(chan struct{}) } // so that AfterFunc is used

func (w watched) AfterFunc(func()) (stop func() bool) {
	w.waiting <- struct{}{}
	return func() bool {
		<-w.waiting
		return true
	}
}

func TestAContextHoldsOnToNoCallThatHasReturned(t *testing.T) {
	t.Parallel()
	ctx := watched{t.Context(), make(chan struct{}, 1)}
	if _, err := (Call[int]{Do: func(context.Context) (int, error) { return 7, nil }}).Wait(ctx); err != nil {
		t.Error(err)
	}
	if n := len(ctx.waiting); n > 0 {
		t.Errorf("%d calls", n)
	}
}

// The clock of the patience runs long after most calls have returned.
func TestNothingHoldsOnToACallThatReturnsAfterItsContextHasEnded(t *testing.T) {
	t.Parallel()
	type large [1 << 20]byte
	ctx, cancel := context.WithCancel(t.Context())
	called := func() weak.Pointer[large] {
		known := new(large)
		call := Call[byte]{Do: func(ctx context.Context) (byte, error) {
			begun := make(chan struct{})
			context.AfterFunc(ctx, func() { close(begun) }) // perhaps before ours
			cancel()
			<-begun
			return known[0], nil
		}, Patience: time.Hour, Late: func(b byte, _ error) { known[1] = b }}
		if _, err := call.Wait(ctx); err != nil {
			t.Error(err)
		}
		return weak.Make(known)
	}()
	for until := time.Now().Add(time.Minute); called.Value() != nil; runtime.GC() {
		if time.Now().After(until) {
			t.Fatal("what the call knew is still in memory")
		}
	}
}
