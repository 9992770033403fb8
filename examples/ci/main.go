// Command ci runs many jobs and keeps the output of each, byte for byte, in a file of its own. It may be killed at any time
// and started again: finished jobs stay finished, unfinished ones are run again, and no process of a job is left.
//
//	ci -out DIR [-jobs 500] [-parallel 8] SCRIPT
//
// SCRIPT is run by sh once for each job, with the number in JOB. The artifact is DIR/N.log; DIR/N.status says how the job
// ended.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

func main() {
	r := runner{}
	flag.StringVar(&r.out, "out", "", "directory of the artifacts")
	flag.IntVar(&r.jobs, "jobs", 500, "how many jobs")
	flag.IntVar(&r.parallel, "parallel", 8, "how many at once")
	flag.Parse()
	if r.script = flag.Arg(0); r.out == "" || r.script == "" || r.parallel < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	done, err := r.run(ctx)
	fmt.Printf("%d jobs done now, %d before\n", done, r.before)
	if err != nil {
		fmt.Fprintln(os.Stderr, "ci:", err)
		os.Exit(1)
	}
}

// runner runs jobs.
type runner struct {
	out, script    string
	jobs, parallel int

	session *execbus.Session
	before  int // jobs that an earlier run has finished
}

// run runs the jobs that no earlier run has finished, and returns how many these were.
func (r *runner) run(ctx context.Context) (done int, err error) {
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return 0, err
	}
	// If an earlier run was killed together with its warden, the state directory lets this run end the processes it left.
	rt, err := execbus.Start(execbus.Options{StateDir: filepath.Join(r.out, ".state")})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rt.Shutdown(context.WithoutCancel(ctx))) }()
	r.session, err = rt.OpenSession(execbus.SessionOptions{Dir: r.out, MaxProcesses: r.parallel + 1})
	if err != nil {
		return 0, err
	}
	numbers := make(chan int)
	results := make(chan error)
	var workers sync.WaitGroup
	for range r.parallel {
		workers.Go(func() {
			for n := range numbers {
				results <- r.job(ctx, n)
			}
		})
	}
	go func() {
		for n := range r.jobs {
			if ctx.Err() == nil && !r.isDone(n) {
				numbers <- n
			}
		}
		close(numbers)
		workers.Wait()
		close(results)
	}()
	for result := range results {
		if result == nil {
			done++
		}
		err = errors.Join(err, result)
	}
	r.before = r.count() - done
	return done, errors.Join(err, ctx.Err())
}

// file returns the name of a file about a job.
func (r *runner) file(n int, what string) string {
	return filepath.Join(r.out, strconv.Itoa(n)+"."+what)
}

// isDone reports whether a job is finished: its status is written last.
func (r *runner) isDone(n int) bool {
	_, err := os.Stat(r.file(n, "status"))
	return err == nil
}

func (r *runner) count() (done int) {
	for n := range r.jobs {
		if r.isDone(n) {
			done++
		}
	}
	return done
}

// job runs one job. Its artifact gets its name when it is complete, and its status after that.
func (r *runner) job(ctx context.Context, n int) error {
	half := r.file(n, "half")
	file, err := os.Create(half)
	if err != nil {
		return err
	}
	defer file.Close()
	status, err := r.record(ctx, n, file)
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = os.Rename(half, r.file(n, "log"))
	}
	if err != nil {
		return fmt.Errorf("job %d: %w", n, err)
	}
	text := status.String() + "\n"
	if err := os.WriteFile(half, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(half, r.file(n, "status"))
}

// record writes the whole output of a job to a file. The subscription is lossless: a job waits for a slow disk, and nothing
// is dropped.
func (r *runner) record(ctx context.Context, n int, file *os.File) (messages.ExitStatus, error) {
	none := messages.StatusNone()
	call := messages.CallID("job " + strconv.Itoa(n))
	events, err := r.session.Events(execbus.Watch{Calls: []messages.CallID{call}, Lossless: true})
	if err != nil {
		return none, err
	}
	defer events.Close()
	process, err := r.session.Start(ctx, messages.ExecCommand{Call: call, Argv: []string{"sh", "-c", r.script}, Merged: true,
		Environment: &messages.EnvironmentPolicy{Set: map[string]string{"JOB": strconv.Itoa(n)}}})
	if err != nil {
		return none, err
	}
	artifact := bufio.NewWriterSize(file, 64<<10)
	for event, err := range events.All(ctx) {
		if err != nil {
			return none, errors.Join(err, r.give(process))
		}
		switch e := event.(type) {
		case messages.OutputDelta:
			if _, err := artifact.Write(e.Bytes); err != nil {
				return none, errors.Join(err, r.give(process))
			}
		case messages.ExecEnded:
			return e.Status, artifact.Flush()
		}
	}
	return none, errors.New("the events ended before the job")
}

// give ends a job that is no longer recorded.
func (r *runner) give(process *execbus.Process) error {
	_, err := process.Terminate(context.Background())
	return err
}
