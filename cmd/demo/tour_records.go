package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// ledger notes every start and every end, from the events of all sessions.
type ledger struct {
	entries chan entry
	open    int // sessions whose events are still being read
}

type entry struct {
	session messages.SessionID
	process messages.ProcessID
	end     *messages.EndRecord // nil: a start
	err     error               // why the events of a session ended
}

func newLedger() *ledger { return &ledger{entries: make(chan entry, 4*tooMany)} }

// follow notes a session's starts and ends from now on.
func (l *ledger) follow(session *execbus.Session) error {
	events, err := session.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindExecStarted, messages.KindExecEnded}})
	if err != nil {
		return err
	}
	l.open++
	go func() {
		for event, err := range events.All(context.Background()) {
			if err != nil {
				l.entries <- entry{err: err}
				return
			}
			e := entry{session: event.From().Session, process: event.From().Process}
			if ended, ok := event.(messages.ExecEnded); ok {
				e.end = &ended.EndRecord
			}
			l.entries <- e
		}
	}()
	return nil
}

// name identifies a process in the ledger: each session has its own numbers.
type name struct {
	session messages.SessionID
	process messages.ProcessID
}

// close reads the ledger to its end, which comes when the runtime is shut down.
func (l *ledger) close(ctx context.Context) (starts, ends map[name]int, causes map[string]int, err error) {
	starts, ends, causes = map[name]int{}, map[name]int{}, map[string]int{}
	for l.open > 0 {
		var e entry
		select {
		case e = <-l.entries:
		case <-ctx.Done():
			return starts, ends, causes, ctx.Err()
		}
		n := name{e.session, e.process}
		switch {
		case e.err != nil && !errors.Is(e.err, messages.ErrClosed):
			return starts, ends, causes, e.err
		case e.err != nil:
			l.open--
		case e.end == nil:
			starts[n]++
		default:
			ends[n]++
			cause := string(e.end.Cause)
			if e.end.By != "" {
				cause += " by " + string(e.end.By)
			}
			causes[cause]++
		}
	}
	return starts, ends, causes, nil
}

func showRecords(ctx context.Context, t *tour, s *scene) error {
	left, err := t.session.Start(ctx, messages.ExecCommand{Call: messages.CallID(t.call()), Argv: []string{"sleep", "1000"}})
	if err != nil {
		return err
	}
	s.say("One more process is started and left alone: %d. Then everything is shut down.", left.ID())
	stats, err := t.rt.Stats(ctx)
	if err != nil {
		return err
	}
	if err := shutdown(t.rt); err != nil {
		return err
	}
	starts, ends, causes, err := t.ledger.close(ctx)
	if err != nil {
		return err
	}
	once := len(starts) == len(ends)
	for n := range starts {
		once = once && starts[n] == 1 && ends[n] == 1
	}
	for _, cause := range sorted(causes) {
		s.quote(fmt.Sprintf("%3d %s", causes[cause], cause))
	}
	s.fact("started", len(starts))
	s.fact("ended", causes)
	s.check(once, "%d processes were started, and each has exactly one end", len(starts))
	s.check(uint64(len(starts)) == stats.Started, "the runtime counted as many: %d", stats.Started)
	if children, known := childrenOf(os.Getpid()); known {
		s.check(len(children) == 0, "this process has %d children left", len(children))
	}
	return nil
}

// childrenOf returns the children of a process; known is false if there is no /proc.
func childrenOf(parent int) (pids []int, known bool) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		behind := string(text[bytes.LastIndexByte(text, ')')+1:]) // a name may contain any character
		if fields := strings.Fields(behind); len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids, len(files) > 0
}
