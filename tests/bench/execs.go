package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
)

// manyExecs is how many commands a session may have by default.
const manyExecs = execbus.DefaultSessionMaxProcesses

func execCases() []benchCase {
	exec := func(name, about string, count int, limit float64) benchCase {
		return benchCase{name: name, about: about,
			metrics: []metric{{unit: microseconds, judge: atMost, limit: limit}, {name: "ended", unit: microseconds}},
			run:     func(ctx context.Context, h *harness) ([]value, error) { return compareExecs(ctx, h, count) }}
	}
	return []benchCase{
		exec("exec-result", "/bin/true on pipes through Session.Exec, to its Result", 1, 1.5),
		exec("exec-64", "64 times that at once in one session, to the last Result", manyExecs, 1.3),
	}
}

// compareExecs alternates between the ways within each pair. Every pair has a session of its own.
func compareExecs(ctx context.Context, h *harness, count int) ([]value, error) {
	runtime, err := execbus.Start(execbus.Options{})
	if err != nil {
		return nil, err
	}
	defer shutDown(runtime)
	turns := h.some(200, 40)
	if count > 1 {
		turns = h.some(15, 5)
	}
	return h.collect(ctx, func(ctx context.Context, _ int) (b, o []float64, err error) {
		s, err := newExecs(ctx, runtime, count)
		if err != nil {
			return nil, nil, wrap("ours", err)
		}
		defer s.close()
		var bares, ours, ends []float64
		for range turns {
			took, err := bareExecs(count, s.env)
			if err != nil {
				return nil, nil, wrap("bare", err)
			}
			bares = append(bares, micros(took))
			took, ended, err := s.once(ctx, count)
			if err != nil {
				return nil, nil, wrap("ours", err)
			}
			ours, ends = append(ours, micros(took)), append(ends, micros(ended))
		}
		return []float64{median(bares), median(bares)}, []float64{median(ours), median(ends)}, nil
	})
}

func bareExecs(count int, env []string) (time.Duration, error) {
	began := time.Now()
	err := together(count, func() error {
		_, err := bareWith(env)
		return err
	})
	return time.Since(began), err
}

// together calls do so many times at once.
func together(count int, do func() error) error {
	failed := make([]error, count)
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() { failed[i] = do() })
	}
	all.Wait()
	return errors.Join(failed...)
}

// execs is a session that runs the same command again and again.
type execs struct {
	session *execbus.Session
	ends    *bus.Subscription
	env     []string // of its commands
}

// newExecs includes a first turn, which may start the warden.
func newExecs(ctx context.Context, runtime *execbus.Runtime, count int) (*execs, error) {
	session, err := runtime.OpenSession(execbus.SessionOptions{Dir: "/"})
	if err != nil {
		return nil, err
	}
	s := &execs{session: session}
	if s.ends, err = session.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindExecEnded}}); err == nil {
		s.env, err = s.environment(ctx)
	}
	if err == nil {
		_, _, err = s.once(ctx, count)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// environment returns the environment that a command of the session gets, so that the bare way can have the same.
func (s *execs) environment(ctx context.Context) ([]string, error) {
	result, err := s.session.Exec(ctx, messages.ExecCommand{Argv: []string{"env", "-0"}})
	if err != nil {
		return nil, err
	}
	if result.Running || result.Status != messages.StatusExited(0) {
		return nil, fmt.Errorf("env ended with %s, running: %v", result.Status, result.Running)
	}
	_, err = s.ends.Next(ctx)
	return strings.Split(strings.TrimSuffix(string(result.Output), "\x00"), "\x00"), err
}

func (s *execs) close() {
	if s.ends != nil {
		s.ends.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), eventPatience)
	defer cancel()
	_ = s.session.Close(ctx)
}

// once returns the time until all results were there, and until all processes had ended. It fails if a process is left then:
// the next turn needs all slots.
func (s *execs) once(ctx context.Context, count int) (took, ended time.Duration, err error) {
	began := time.Now()
	err = together(count, func() error {
		result, err := s.session.Exec(ctx, messages.ExecCommand{Argv: []string{program}})
		if err == nil && (result.Running || result.Status != messages.StatusExited(0)) {
			err = fmt.Errorf("%s ended with %s, running: %v", program, result.Status, result.Running)
		}
		return err
	})
	took = time.Since(began)
	if err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, eventPatience)
	defer cancel()
	for range count {
		if _, err := s.ends.Next(ctx); err != nil {
			return 0, 0, err
		}
	}
	ended = time.Since(began)
	left, err := s.session.List(ctx)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%d ended processes still hold slots", len(left))
	}
	return took, ended, err
}
