package main

import (
	"fmt"
	"os"

	"github.com/execbus/execbus/messages"
)

// script is the view for scripts: it shows the output of the commands unchanged.
type script struct{}

func (script) output(_ *job, stream messages.Stream, p []byte) {
	out := os.Stdout
	if stream == messages.StreamStderr {
		out = os.Stderr
	}
	_, _ = out.Write(p) // if nobody reads it any more, SIGPIPE ends this process, and the warden ends the command
}

func (s script) ended(j *job, end messages.ExecEnded) {
	if end.Cause == messages.CauseRuntimeFailure || len(end.Tree.Survivors) > 0 {
		s.note(fmt.Sprintf("[%d] %s; still alive: %v", j.id, &end.EndRecord, end.Tree.Survivors))
	}
}

func (script) flush() {}

func (script) close() {}

func (script) answer(text string) { fmt.Print(text) }

func (script) note(text string) { fmt.Fprintln(os.Stderr, "demo:", text) }

func (s script) fail(err error) { s.note(err.Error()) }
