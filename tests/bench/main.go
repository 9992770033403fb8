package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/execbus/execbus/tests/harness"
)

var command = harness.Command{Name: "bench", Prepare: prepare,
	Usage: "Compares execbus with the bare way of doing the same thing, in turns, and judges the ratio.\n" +
		"Exit code: 0 limits kept, 1 missed, 2 usage, 3 could not be measured. go doc ./tests/bench says what the numbers mean."}

func main() {
	if len(os.Args) == 3 && os.Args[1] == writerFlag {
		writers[os.Args[2]](os.Stdout)
		return
	}
	if len(os.Args) == 5 && os.Args[1] == rowFlag {
		if err := take(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[2], err)
			os.Exit(harness.ExitFailed)
		}
		return
	}
	command.Main()
}

// rows are all rows, in the order in which they are measured.
func rows() []row {
	return slices.Concat(execRows(), executionRows(), waitRows(), streamRows(), doorRows(), untilRows(), lookRows(), networkRows(), windowRows(), dayRows(), memoryRows(), layerRows())
}

func prepare(flags *flag.FlagSet) harness.Run {
	only := flags.String("run", "", "measure only the rows whose name matches `REGEXP`, those of layers and long ones included")
	layers := flags.Bool("layers", false, "measure layers alone, too: spawners and their terminals")
	lasts := flags.Duration("time", defaultTime, "how long each row is measured, `TIME`")
	quick := flags.Bool("quick", false, "fewer and smaller samples, for a first impression")
	listing := flags.Bool("list", false, "list the rows and their limits")
	return func(ctx context.Context, rest []string, out io.Writer, progress *harness.Progress) (int, error) {
		pattern, err := regexp.Compile(*only)
		switch {
		case err != nil:
			return 0, harness.Misused("-run: %v", err)
		case len(rest) > 0:
			return 0, harness.Misused("unexpected argument %q", rest[0])
		case *lasts <= 0:
			return 0, harness.Misused("-time %v: use more than 0", *lasts)
		}
		chosen := slices.DeleteFunc(rows(), func(r row) bool {
			return !pattern.MatchString(r.name) || r.demand != "" && *only == "" && !*listing && !(*layers && r.demand == layer)
		})
		b := &bench{lasts: *lasts, quick: *quick, progress: progress}
		if *quick {
			b.lasts = min(b.lasts, quickTime)
		}
		switch {
		case len(chosen) == 0:
			return 0, harness.Misused("-run %q matches no row; -list names them", *only)
		case *listing:
			return harness.ExitOK, list(out, chosen)
		}
		lines := b.measure(ctx, chosen)
		return exitCode(lines), writeTable(out, lines)
	}
}

// defaultTime is how long a row is measured, so that all take less than six minutes: some take ten seconds for their three samples.
// quickTime is how long at most with -quick.
const (
	defaultTime = 4 * time.Second
	quickTime   = time.Second
)

// measure measures one row after the other.
func (b *bench) measure(ctx context.Context, chosen []row) (all []line) {
	b.progress.Say("%s", machine())
	for n, one := range chosen {
		b.progress.Say("%d/%d %s: %s", n+1, len(chosen), one.name, one.about)
		lines, err := one.measure(ctx, b)
		if err != nil {
			lines = []line{{Row: one.name, Verdict: unmeasured + strings.ReplaceAll(err.Error(), "\n", "; ")}}
		}
		if all = append(all, lines...); ctx.Err() != nil {
			break
		}
	}
	b.progress.Say("load at the end: %s", firstLine("/proc/loadavg"))
	return all
}
