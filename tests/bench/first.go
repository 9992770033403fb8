package main

import (
	"context"
	"io"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

func firstCase() benchCase {
	return benchCase{name: "first", about: "the first command of a program: Start, OpenSession and Exec of /bin/true",
		metrics: []metric{{unit: milliseconds, judge: valueMost, limit: 6}, {name: "start", unit: milliseconds}}, run: measureFirst}
}

// firstAnswer is the helper's result, in ms.
type firstAnswer struct{ Start, All float64 }

// measureFirst uses a fresh process for each sample: later runtimes of a process find the code in memory.
func measureFirst(ctx context.Context, h *harness) ([]value, error) {
	var all, starts []float64
	for range 3 * h.pairs {
		helper, err := startHelper(ctx, "first", "0", "")
		if err != nil {
			return nil, err
		}
		var a firstAnswer
		err = helper.ask(0, &a)
		helper.close()
		if err != nil {
			return nil, err
		}
		all, starts = append(all, a.All), append(starts, a.Start)
	}
	return []value{single(all), single(starts)}, nil
}

func answerFirst(out io.Writer) error {
	return serve(out, func(ctx context.Context, _ int) (any, error) {
		began := time.Now()
		runtime, err := execbus.Start(execbus.Options{})
		if err != nil {
			return nil, err
		}
		a := firstAnswer{Start: micros(time.Since(began)) / 1e3}
		session, err := runtime.OpenSession(execbus.SessionOptions{Dir: "/"})
		if err == nil {
			_, err = session.Exec(ctx, messages.ExecCommand{Argv: []string{program}})
		}
		a.All = micros(time.Since(began)) / 1e3
		if ended := shutDown(runtime); err == nil {
			err = ended
		}
		return a, err
	})
}
