// Command bench measures what a fleet costs on one machine, in turn with the same thing in this process, and judges it.
//
//	go run ./bench                   # in the directory of the module: about two minutes
//	go run ./bench -run 'call|exec' -time 20s
//	go run ./bench -quick            # a first impression
//	go run ./bench -list
//
// The server, and the nodes, are processes of their own, and all connections are TCP on the loopback interface.
//
// # What it measures
//
// call: Session.Read of the last byte of a process that waits, through the fleet and in this process ("local"); exec: /bin/true, to its end.
// The two take turns; the medians are compared, and "p99" is for information.
//
// flood: a command prints on a terminal in raw mode as fast as it can, and a reader follows it from the first byte on. What a reader did not get
// is in a gap and does not count. flood-pipe is the same on a pipe, for information.
//
// placement: fleet.Open on one of 100 nodes, which send heartbeats and take sessions as others do, but share a runtime. It begins ten
// seconds after their start, when all have looked at the others for the first time. The time is that of Open; the session is closed behind it. One connection places them, so that it has read the nodes before, which it does again each second;
// "first" is the median of new connections, which have looked up nothing yet.
//
// books: sessions without processes are opened on three nodes, half of them and then the other half. "memory" is what one session adds to the
// resident memory of the nodes and the server, and "reading" how much a node receives for it when it reads the books, which it does every 100 s:
// the left number is that of the first half, the right one that of the second, so growth is linear if they are alike. "heartbeats" is what a
// node sends and receives in a second, without sessions and with all of them.
//
// # What you must not assume
//
// That a miss counts on a machine that does other things. Nor that two machines with a network between them have these times.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/execbus/execbus/tests/harness"
)

var command = harness.Command{Name: "bench", Prepare: prepare,
	Usage: "Measures what a fleet costs on one machine, in turn with the same thing in this process, and judges it.\n" +
		"Exit code: 0 limits kept, 1 missed, 2 usage, 3 could not be measured. go doc ./bench says what the numbers mean."}

func main() {
	if len(os.Args) > 2 && os.Args[1] == roleFlag {
		if err := serve(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(harness.ExitFailed)
		}
		return
	}
	command.Main()
}

func prepare(flags *flag.FlagSet) harness.Run {
	only := flags.String("run", "", "measure only the rows whose name matches `REGEXP`")
	lasts := flags.Duration("time", 10*time.Second, "how long each row with two sides is measured, `TIME`")
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
		chosen := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return !pattern.MatchString(r.name) })
		if len(chosen) == 0 {
			return 0, harness.Misused("-run %q matches no row; -list names them", *only)
		}
		if *listing {
			for _, r := range chosen {
				fmt.Fprintf(out, "%-10s %s\n", r.name, r.about)
			}
			return harness.ExitOK, nil
		}
		b := &bench{Progress: progress, lasts: *lasts, quick: *quick}
		if *quick {
			b.lasts = min(b.lasts, time.Second)
		}
		return b.measure(ctx, chosen, out)
	}
}

// row is something that is measured.
type row struct {
	name, about string
	measure     func(context.Context, *bench) ([]figure, error)
}

// figure is one number, with what must hold of it.
type figure struct {
	name         string
	unit         string
	local, fleet float64 // local is 0 if there is nothing to compare with
	limit        string  // what is judged, in words; empty: nothing
	missed       bool
}

// bench is one run.
type bench struct {
	*harness.Progress
	lasts time.Duration
	quick bool
}

// some returns a number: the full one, or the one for -quick.
func (b *bench) some(full, quick int) int {
	if b.quick {
		return quick
	}
	return full
}

// measure measures one row after the other and prints the table.
func (b *bench) measure(ctx context.Context, chosen []row, out io.Writer) (int, error) {
	load, _ := os.ReadFile("/proc/loadavg")
	b.Say("%d cores, %s %s/%s, load %s", runtime.GOMAXPROCS(0), runtime.Version(), runtime.GOOS, runtime.GOARCH, strings.TrimSpace(string(load)))
	code := harness.ExitOK
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "row\tlocal\tfleet\tlimit\tverdict")
	for n, r := range chosen {
		b.Say("%d/%d %s: %s", n+1, len(chosen), r.name, r.about)
		figures, err := r.measure(ctx, b)
		if err != nil {
			fmt.Fprintf(table, "%s\t\t\t\tNOT MEASURED: %s\n", r.name, strings.ReplaceAll(err.Error(), "\n", "; "))
			code = harness.ExitFailed
		}
		for _, f := range figures {
			verdict := "-"
			if f.limit != "" {
				verdict = "ok"
			}
			if f.missed {
				verdict, code = "MISS", max(code, harness.ExitBroken)
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", strings.TrimSpace(r.name+" "+f.name), show(f.local, f.unit), show(f.fleet, f.unit), f.limit, verdict)
		}
		if ctx.Err() != nil {
			code = harness.ExitFailed
			break
		}
	}
	return code, table.Flush()
}

func show(value float64, unit string) string {
	if value == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f %s", value, unit)
}
