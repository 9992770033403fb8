package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"time"

	"github.com/execbus/execbus/tests/harness"
)

var command = harness.Command{Name: "soak", Prepare: prepare,
	Usage: "Works execbus for a long time, looks for anything that grows, and checks every answer.\n" +
		"Exit code: 0 ok, 1 drift or a broken invariant, 2 usage, 3 could not run to its end. go doc ./tests/soak says what the numbers mean."}

func main() { command.Main() }

// maxParallel bounds the workers.
const maxParallel = 256

// arguments are the command line.
type arguments struct {
	duration time.Duration
	seed     uint64
	parallel int
	only     *regexp.Regexp
}

func prepare(flags *flag.FlagSet) harness.Run {
	var a arguments
	flags.DurationVar(&a.duration, "duration", 10*time.Minute, "how long to work, `TIME`")
	flags.Uint64Var(&a.seed, "seed", uint64(rand.Uint32()), "`NUMBER` from which all choices follow; drawn if it is not given, and short enough to type")
	flags.IntVar(&a.parallel, "parallel", 8, "`N` workers at the same time")
	only := flags.String("only", "", "use only the scenarios whose name matches `REGEXP`")
	return func(ctx context.Context, rest []string, out io.Writer, progress *harness.Progress) (int, error) {
		var err error
		a.only, err = regexp.Compile(*only)
		switch {
		case err != nil:
			return 0, harness.Misused("-only: %v", err)
		case len(rest) > 0:
			return 0, harness.Misused("unexpected argument %q", rest[0])
		case a.duration < time.Second:
			return 0, harness.Misused("-duration %v: use 1s or more", a.duration)
		case a.parallel < 1 || a.parallel > maxParallel:
			return 0, harness.Misused("-parallel %d: use 1 to %d", a.parallel, maxParallel)
		case len(matching(a.only)) == 0:
			return 0, harness.Misused("-only %q matches no scenario; there are %s", a.only, scenarioNames())
		}
		s, err := newSoak(a, progress)
		if err != nil {
			return 0, err
		}
		s.run(ctx)
		code, text := s.result()
		s.writeTable(out)
		_, err = fmt.Fprint(out, "\n", text)
		return code, err
	}
}

// dice returns the random numbers of one step. They follow from the seed, the worker and the step.
func (a arguments) dice(worker, step int) *rand.Rand {
	return rand.New(rand.NewPCG(a.seed, uint64(worker)<<40|uint64(step)))
}
