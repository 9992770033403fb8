// Command watch runs a command when files below the working directory are created or written. Before the next run,
// everything of the last one is over: its daemons have ended, and its output has been passed on.
//
//	watch [-r REGEX] [-s] COMMAND [ARGUMENT]...
//
// With -s the command is a service: it runs from the start, and a change restarts it. Each {} in an argument is replaced by
// the name of the file that changed. Names that begin with a dot or end with a tilde are ignored.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// batch is how long no file may change before a run: one save makes several changes. Tests need longer.
var batch = 200 * time.Millisecond

func main() {
	w := watcher{}
	pattern := flag.String("r", "", "run only for names that match this regular expression")
	flag.BoolVar(&w.service, "s", false, "run from the start, and restart on changes")
	flag.Parse()
	log.SetFlags(0)
	log.SetPrefix("watch: ")
	w.argv = flag.Args()
	var err error
	if w.regex, err = regexp.Compile(*pattern); err != nil || len(w.argv) == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends this program at once, and the warden ends the command
	if err := w.run(ctx); err != nil {
		log.Fatal(err)
	}
}

// watcher runs one command at a time.
type watcher struct {
	regex   *regexp.Regexp
	service bool
	argv    []string
	session *execbus.Session
	changes *fsnotify.Watcher
	changed []string // the files that wait for a run, each once, so there are no more of them than files
}

// command is one run of the command.
type command struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended and all output has been passed on
}

// run watches until the context ends.
func (w *watcher) run(ctx context.Context) (err error) {
	rt, err := execbus.Start(execbus.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Shutdown(context.WithoutCancel(ctx))) }()
	if w.session, err = rt.OpenSession(execbus.SessionOptions{}); err != nil {
		return err
	}
	if w.changes, err = fsnotify.NewWatcher(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.changes.Close()) }()
	if err := w.add(".", false); err != nil {
		return err
	}
	log.Printf("watching %d directories", len(w.changes.WatchList()))
	return w.loop(ctx)
}

func (w *watcher) loop(ctx context.Context) error {
	var current command
	defer func() { w.stop(current) }()
	if w.service {
		w.changed = []string{""}
	}
	for quiet := time.NewTimer(0); ; {
		select {
		case <-ctx.Done():
			return nil
		case change := <-w.changes.Events:
			if w.note(change) {
				quiet.Reset(batch)
			}
			continue
		case err := <-w.changes.Errors:
			return fmt.Errorf("changes may have been missed: %w", err)
		case <-current.done:
			current.cancel()
			current = command{}
		case <-quiet.C:
		}
		if len(w.changed) == 0 || current.done != nil && !w.service {
			continue // the loop also gets here when the command has ended
		}
		w.stop(current)
		current = w.start(w.changed[0])
		w.changed = w.changed[1:]
	}
}

// note remembers a change if the command has to run for it, and reports whether any change waits.
func (w *watcher) note(change fsnotify.Event) bool {
	if !change.Has(fsnotify.Create) && !change.Has(fsnotify.Write) {
		return false
	}
	if info, err := os.Lstat(change.Name); err != nil || !info.IsDir() {
		w.file(change.Name)
	} else if err := w.add(change.Name, true); err != nil {
		log.Print(err)
	}
	return len(w.changed) > 0
}

// add watches a directory and all directories below it. A new one may already have files.
func (w *watcher) add(dir string, isNew bool) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // gone meanwhile
			return nil
		case err != nil:
			return err
		case entry.IsDir() && path != "." && ignored(path):
			return filepath.SkipDir
		case entry.IsDir():
			return w.changes.Add(path)
		case isNew:
			w.file(path)
		}
		return nil
	})
}

func ignored(path string) bool {
	return strings.HasPrefix(filepath.Base(path), ".") || strings.HasSuffix(path, "~")
}

// file remembers a file. A command that does not name the file runs once for any number of files.
func (w *watcher) file(path string) {
	path = filepath.Clean(path)
	one := len(w.changed) > 0 && (w.service || !strings.Contains(strings.Join(w.argv, "\x00"), "{}"))
	if !ignored(path) && w.regex.MatchString(path) && !one && !slices.Contains(w.changed, path) {
		w.changed = append(w.changed, path)
	}
}

// start begins a run. If its output is read slowly, the command waits, and nothing is dropped.
func (w *watcher) start(file string) command {
	argv := strings.Split(strings.ReplaceAll(strings.Join(w.argv, "\x00"), "{}", file), "\x00")
	ctx, cancel := context.WithCancel(context.Background())
	c := command{cancel, make(chan struct{})}
	go func() {
		defer close(c.done)
		result, err := w.session.RunStreams(ctx, messages.RunCommand{Argv: argv},
			execbus.Streams{Stdout: os.Stdout, Stderr: os.Stderr})
		switch {
		case ctx.Err() != nil: // stopped
		case err != nil: // an error such as a missing program, which the next change may fix
			log.Print(err)
		case result.Status != messages.StatusExited(0):
			log.Print(result.Status)
		}
	}()
	return c
}

// stop ends a run: SIGTERM and 10 s later SIGKILL, for all its processes. It also cancels a start that is not complete.
func (w *watcher) stop(c command) {
	if c.done != nil {
		running, _ := w.session.List(context.Background())
		for _, process := range running {
			_, _ = w.session.Terminate(context.Background(), messages.Terminate{Process: process.Process, Grace: new(10 * time.Second)})
		}
		c.cancel()
		<-c.done
	}
}
