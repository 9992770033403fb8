package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// daemons starts three daemons with three children each, and reports it. They leave its session and process group, lose
// their parents, and ignore the signals that usually end a process. $0 is on the command line of each of them.
const daemons = `
for daemon in 1 2 3; do
	(setsid sh -c '
		trap "" TERM HUP INT
		for child in 1 2 3; do sh -c "trap \"\" TERM HUP INT; while :; do sleep 1000; done" "$0" & done
		echo ready
		while :; do sleep 1000; done
	' "$0" &)
done
while :; do sleep 1000; done`

const daemonCount = 12

func showTree(ctx context.Context, t *tour, s *scene) error {
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		return s.skip("there is no /proc to count processes in")
	}
	if _, err := exec.LookPath("setsid"); err != nil {
		return s.skip("there is no setsid to make daemons with")
	}
	name := fmt.Sprintf("execbus-tour-%d", os.Getpid())
	call := messages.CallID(t.call())
	events, err := t.session.Events(execbus.Watch{Calls: []messages.CallID{call}})
	if err != nil {
		return err
	}
	defer events.Close()
	s.say("A script starts 3 daemons with setsid and a double fork, each with 3 children. All ignore SIGTERM.")
	leader, err := t.session.Start(ctx, messages.ExecCommand{Call: call, Argv: []string{"/bin/sh", "-c", daemons, name}})
	if err != nil {
		return err
	}
	if err := readyDaemons(ctx, events); err != nil {
		return err
	}
	children, err := settled(ctx, name)
	if err != nil {
		return err
	}
	s.check(children == daemonCount, "/proc has the leader, %d daemons, and the processes that those started", children)
	record, err := t.session.Terminate(ctx, messages.Terminate{Process: leader.ID()})
	if err != nil {
		return err
	}
	left := named(name)
	s.quote(fmt.Sprintf("%s; %d descendants ended; airtight: %t", record, record.Tree.Ended, record.Tree.Airtight))
	s.fact("before", children+1)
	s.fact("after", len(left))
	s.fact("record", record)
	s.check(len(left) == 0, "/proc has %d of them", len(left))
	s.check(record.Tree.Ended >= children && len(record.Tree.Survivors) == 0, "the end record counts %d and names no survivor", record.Tree.Ended)
	return nil
}

// readyDaemons waits until all daemons have said that they are ready.
func readyDaemons(ctx context.Context, events subscription) error {
	var said []byte
	for bytes.Count(said, []byte("ready")) < 3 {
		event, err := events.Next(ctx)
		if err != nil {
			return err
		}
		if output, ok := event.(messages.OutputDelta); ok {
			said = append(said, output.Bytes...)
		}
	}
	return nil
}

// settled counts the processes below the leader once the intermediate processes are gone.
func settled(ctx context.Context, name string) (count int, err error) {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	patience := time.After(answerTime)
	for {
		count = len(named(name)) - 1
		if count == daemonCount {
			return count, nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return count, ctx.Err()
		case <-patience:
			return count, nil
		}
	}
}

// named finds the processes that have a word on their command line.
func named(word string) (pids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		text, err := os.ReadFile(file) // the file of a process that has ended meanwhile cannot be read
		if err != nil {
			continue
		}
		for argument := range strings.SplitSeq(string(text), "\x00") {
			if argument == word {
				pids = append(pids, filepath.Base(filepath.Dir(file)))
				break
			}
		}
	}
	return pids
}
