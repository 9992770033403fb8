package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// tooMany is the number of processes that are started against the limit.
const tooMany = 70

func showLimit(ctx context.Context, t *tour, s *scene) error {
	session, err := t.rt.OpenSession(execbus.SessionOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = session.Close(context.WithoutCancel(ctx)) }()
	if err := t.ledger.follow(session); err != nil {
		return err
	}
	warnings, err := session.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindProcessWarning}})
	if err != nil {
		return err
	}
	defer warnings.Close()
	ends, err := session.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindExecEnded}})
	if err != nil {
		return err
	}
	defer ends.Close()
	s.say("A session of its own. %d times: sleep 1000", tooMany)
	var started []messages.ProcessID
	for range tooMany {
		p, err := session.Start(ctx, messages.ExecCommand{Call: messages.CallID(t.call()), Argv: []string{"sleep", "1000"}})
		if err != nil {
			return fmt.Errorf("after %d: %w", len(started), err)
		}
		started = append(started, p.ID())
	}
	for range tooMany - execbus.DefaultSessionMaxProcesses { // a process makes room only when the call for the new one has been answered
		if _, err := ends.Next(ctx); err != nil {
			return err
		}
	}
	records, err := session.Records(ctx)
	if err != nil {
		return err
	}
	var living, pruned []messages.ProcessID
	for _, p := range records {
		if p.End == nil {
			living = append(living, p.Process)
		} else if p.End.Cause == messages.CauseTerminated && p.End.By == messages.TerminatedByPrune {
			pruned = append(pruned, p.Process)
		}
	}
	s.fact("started", len(started))
	s.fact("living", len(living))
	s.fact("pruned", pruned)
	s.check(len(living) == execbus.DefaultSessionMaxProcesses, "%d of %d live", len(living), tooMany)
	oldest := slices.Clone(started[:max(tooMany-execbus.DefaultSessionMaxProcesses, 0)])
	slices.Sort(oldest)
	s.check(slices.Equal(pruned, oldest), "the %d that made room are the oldest: %v", len(pruned), pruned)
	return showWarning(ctx, s, session, warnings)
}

func showWarning(ctx context.Context, s *scene, session *execbus.Session, warnings subscription) error {
	event, err := warnings.Next(ctx)
	if err != nil {
		return err
	}
	warning, _ := event.(messages.ProcessWarning)
	s.check(warning.Processes == execbus.DefaultSessionWarnProcesses && warning.Max == execbus.DefaultSessionMaxProcesses,
		"a warning came with number %d", warning.Processes)
	s.quote(warning.Text)
	if err := session.TerminateAll(ctx); err != nil {
		return err
	}
	left, err := session.List(ctx)
	s.check(err == nil && len(left) == 0, "after one call that ends them all, %d are alive", len(left))
	return err
}
