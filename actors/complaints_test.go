package actors

import (
	"fmt"
	"testing"

	"github.com/execbus/execbus/messages"
)

// complains is the output of a sandboxed command that is stopped, at once or later.
const complains = `if [ -n "$CONFINED" ]; then sleep %s; echo "x: Permission denied"; exit 7; fi; echo second`

func TestADenialThatOnlyTheOutputShows(t *testing.T) {
	s, _ := inSandbox(t, retries, nil)
	awaitThat(t, "one that is stopped early is retried", func() bool { // early enough is up to the machine
		return string(s.exec(shell(fmt.Sprintf(complains, "0"))).Output) == "second\n"
	})
	if denial := s.attemptsEnded()[0].Denial; !denial.FromText {
		t.Errorf("%+v", denial)
	}
	late := s.exec(shell(fmt.Sprintf(complains, "0.3")))
	if late.Status != messages.StatusExited(7) || late.Denial == nil || !late.Denial.FromText {
		t.Errorf("a late one: %v, %v", late.Status, late.Denial)
	}
}

func TestALateDenialInTheTextIsAskedAbout(t *testing.T) {
	s, _ := inSandbox(t, asks, nil)
	call := s.call(shell(fmt.Sprintf(complains, "0.3")))
	s.answer(messages.DecisionApproved)
	if result := call.result(); string(result.Output) != "second\n" {
		t.Errorf("answered %q", result.Output)
	}
}

// A run may keep hundreds of megabytes; an actor must not search them all.
func TestADenialIsSoughtAtBothEndsOfTheOutput(t *testing.T) {
	for name, script := range map[string]string{
		"beginning": `if [ -n "$CONFINED" ]; then echo Operation not permitted; head -c 3000000 /dev/zero; exit 7; fi; echo second`,
		"end":       `if [ -n "$CONFINED" ]; then head -c 3000000 /dev/zero; echo Operation not permitted >&2; exit 7; fi; echo second`,
	} {
		s, _ := inSandbox(t, asks, nil)
		call := s.call(messages.RunCommand{Argv: []string{"bash", "-c", script}, Full: true})
		s.answer(messages.DecisionApproved)
		if reply, err := call.reply(); err != nil || string(reply.(*messages.RunResult).Stdout) != "second\n" {
			t.Errorf("%s: answered %v, %v", name, reply, err)
		}
		s.theEnd()
	}
}
