package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/execbus/execbus"
)

// story tells the steps of a tour, to a person or to a machine.
type story struct {
	asJSON bool
	colour bool
	pause  func(context.Context) // between scenes; nil: none
}

// scene is the account of one step.
type scene struct {
	Step    int            `json:"step"`
	Name    string         `json:"name"`
	About   string         `json:"about"`
	OK      bool           `json:"ok"`
	Seconds float64        `json:"seconds"`
	Skipped string         `json:"skipped,omitempty"`
	Error   string         `json:"error,omitempty"`
	Checks  []check        `json:"checks,omitempty"`
	Facts   map[string]any `json:"facts,omitempty"`

	story *story
}

// check is a claim, and whether it holds.
type check struct {
	Claim string `json:"claim"`
	OK    bool   `json:"ok"`
}

// total is the last object of a story for machines.
type total struct {
	Steps   int     `json:"steps"`
	Failed  int     `json:"failed"`
	Skipped int     `json:"skipped"`
	OK      bool    `json:"ok"`
	Seconds float64 `json:"seconds"`
}

func newStory(asJSON bool) *story {
	return &story{asJSON: asJSON, colour: !asJSON && coloured(os.Stdout)}
}

// tell plays the steps with these numbers, and returns the exit code.
func (s *story) tell(ctx context.Context, numbers []int) int {
	began := time.Now()
	t, err := begin()
	if err != nil {
		return fail(err)
	}
	sum := total{}
	for i, number := range numbers {
		if i > 0 && s.pause != nil {
			s.pause(ctx)
		}
		if ctx.Err() != nil {
			break
		}
		sc := s.play(ctx, t, number, steps()[number-1])
		sum.Steps++
		if _, interrupted := errors.AsType[interruption](context.Cause(ctx)); interrupted {
			break // the interruption may also have made the step fail
		}
		if sc.Skipped != "" {
			sum.Skipped++
		} else if !sc.OK {
			sum.Failed++
		}
	}
	if err := shutdown(t.rt); err != nil { // the last step has done it already, if it was reached
		return fail(err)
	}
	sum.OK, sum.Seconds = sum.Failed == 0 && ctx.Err() == nil, seconds(began)
	s.close(sum)
	if !sum.OK {
		return 1
	}
	return 0
}

// play runs one step.
func (s *story) play(ctx context.Context, t *tour, number int, step step) *scene {
	sc := &scene{Step: number, Name: step.name, About: step.about, Facts: map[string]any{}, story: s}
	s.print("\n%s\n", paint(s.colour, bold, fmt.Sprintf("%d. %s: %s", number, step.name, step.about)))
	began := time.Now()
	bounded, done := context.WithTimeout(ctx, stepTime)
	err := step.show(bounded, t, sc)
	done()
	sc.Seconds = seconds(began)
	sc.OK = err == nil && sc.Skipped == ""
	for _, c := range sc.Checks {
		sc.OK = sc.OK && c.OK
	}
	if err != nil {
		sc.Error = err.Error()
		if ctx.Err() == nil {
			s.print("   %s\n", paint(s.colour, red, "error: "+sc.Error))
		}
	}
	if sc.OK && len(sc.Checks) == 0 {
		panic("a step needs at least one check: " + step.name)
	}
	s.encode(sc)
	return sc
}

func (s *story) close(sum total) {
	s.encode(sum)
	switch {
	case sum.OK:
		s.print("\n%s\n", paint(s.colour, green, told(sum)))
	case sum.Failed > 0:
		s.print("\n%s\n", paint(s.colour, red, fmt.Sprintf("%d of %d steps did not hold.", sum.Failed, sum.Steps)))
	}
}

// told returns the closing sentence of a story in which no step failed.
func told(sum total) string {
	if sum.Steps-sum.Skipped == 1 {
		return "The step held." + skippedText(sum.Skipped)
	}
	return fmt.Sprintf("All %d steps held, in %.1f s.%s", sum.Steps-sum.Skipped, sum.Seconds, skippedText(sum.Skipped))
}

func skippedText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" %d could not be shown on this machine.", n)
}

func (s *story) print(format string, values ...any) {
	if !s.asJSON {
		fmt.Printf(format, values...)
	}
}

func (s *story) encode(v any) {
	if s.asJSON {
		if err := json.NewEncoder(os.Stdout).Encode(v); err != nil {
			fail(err)
		}
	}
}

// say prints a line of the narration.
func (sc *scene) say(format string, values ...any) { sc.story.print("   "+format+"\n", values...) }

// quote shows text from a program or an answer.
func (sc *scene) quote(text string) {
	for row := range strings.SplitSeq(strings.TrimRight(text, "\r\n"), "\n") {
		sc.story.print("   %s\n", paint(sc.story.colour, dim, "| "+execbus.CleanLine(row, false)))
	}
}

// fact records a number or name for machines.
func (sc *scene) fact(name string, value any) { sc.Facts[name] = value }

// check makes a claim.
func (sc *scene) check(holds bool, format string, values ...any) {
	c := check{fmt.Sprintf(format, values...), holds}
	sc.Checks = append(sc.Checks, c)
	if holds {
		sc.story.print("   %s %s\n", paint(sc.story.colour, green, "holds:"), c.Claim)
	} else {
		sc.story.print("   %s %s\n", paint(sc.story.colour, red, "DOES NOT HOLD:"), c.Claim)
	}
}

// skip explains why a step cannot be shown here.
func (sc *scene) skip(why string) error {
	sc.Skipped = why
	sc.say("not shown here: %s", why)
	return nil
}

// errEarlier is the error of a step that needs one before it.
var errEarlier = errors.New("the step that this one continues did not hold")

func seconds(since time.Time) float64 {
	return float64(time.Since(since).Round(time.Millisecond)) / float64(time.Second)
}
