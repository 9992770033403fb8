package writer

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/patch"
	"github.com/execbus/execbus/patch/writer/internal/child"
)

// Conversation is with one running program. One goroutine at a time uses it. A call blocks until the program answers; the owner of the
// program ends it, and the call then fails. After an error the program is of no use.
type Conversation struct {
	program io.Writer
	answers *bufio.Reader
}

// New begins a conversation with a program that was started as Launch says: what it prints is read, and what is written is its input.
func New(program io.ReadWriter) *Conversation {
	return &Conversation{program: program, answers: bufio.NewReaderSize(program, 64<<10)}
}

// Looked is what was found at some paths.
type Looked struct {
	Files  map[string]patch.File  // by path, as it was asked for
	stamps map[string]child.Stamp // by path without links
}

// Location says where a path of a planned change stands: the deepest directory that exists, and the names below it. Writing compares device
// and inode of that directory.
func (l *Looked) Location(path string) messages.Location {
	dir := l.stamps[path].Dir
	return messages.Location{Path: path, Device: dir.Device, Inode: dir.Inode, Born: dir.Born, Below: strings.TrimPrefix(strings.TrimPrefix(path, dir.Path), "/")}
}

// Read looks at paths. What cannot be found out about one is the file's Problem.
func (c *Conversation) Read(paths []string) (*Looked, error) {
	if err := child.Send(c.program, child.Request{Read: &child.Read{Paths: paths, MaxFile: patch.MaxFile, MaxTotal: patch.MaxTotal}}); err != nil {
		return nil, failure(err)
	}
	looked := &Looked{Files: map[string]patch.File{}, stamps: map[string]child.Stamp{}}
	for _, path := range paths {
		reply, err := c.receive()
		if err != nil {
			return nil, err
		}
		f := reply.File
		if f == nil || f.Path != path {
			return nil, failure(errors.New("it answers something else than it was asked"))
		}
		looked.Files[path] = patch.File{Path: f.Path, Place: f.Place, Leads: f.Leads, Link: f.Link, Kind: patch.FileKind(f.Kind),
			ID: patch.ID(f.End.ID), Mode: fs.FileMode(f.End.Mode & 0o777), Data: f.Data, Blocked: f.Blocked, Problem: f.Problem}
		looked.stamps[f.Place] = f.At
		looked.stamps[f.Leads] = f.End // the same, unless Place is a link
	}
	return looked, nil
}

// State says how a file has ended up.
type State = child.State

// The states.
const (
	IsNew = child.IsNew // as the patch wants it
	IsOld = child.IsOld // as it was before
	Left  = child.Left  // neither, or it is not known; Why says more
)

// Result says how a file has ended up.
type Result = child.Result

// Job is a plan to be done.
type Job struct {
	Plan    *patch.Plan
	Looked  *Looked // of the conversation that has read the files of the plan
	Journal *Journal
	// Policy is given back by Recover, for the program that is then started.
	Policy json.RawMessage
	// Protected are absolute paths. The program changes neither them nor what is below them, by whatever name.
	Protected []string
}

// Write does what a plan says. All is done if the error is nil. If it is not, the results say how each file has ended up; without
// results nothing has changed, unless the program has failed: then the journal knows, and Recover is to be called. ctx ends the
// wait for other patches.
func (c *Conversation) Write(ctx context.Context, job Job) ([]Result, error) {
	record, err := newRecord(job)
	if err != nil {
		return nil, err
	}
	unlock, err := job.Journal.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := job.Journal.begin(record); err != nil {
		return nil, err
	}
	defer record.file.Close()
	if err := c.send(record.Changes, child.Request{Prepare: &child.Prepare{Protected: record.Protected}}); err != nil {
		return nil, err
	}
	if err := record.file.Sync(); err != nil { // while the program prepares
		return nil, unusable(job.Journal.path(record), err.Error())
	}
	reply, err := c.receive()
	switch {
	case err != nil:
		return nil, err
	case reply.Failed != nil:
		return nil, cmp.Or(job.Journal.end(record), error(refused(reply.Failed.Path, reply.Failed.Why+"; nothing was changed")))
	case len(reply.Prepared) != len(record.Changes):
		return nil, failure(errors.New("it answers something else than it was asked"))
	}
	if err := job.Journal.prepared(record, reply.Prepared); err != nil {
		return nil, err
	}
	if err := child.Send(c.program, child.Request{Commit: true}); err != nil {
		return nil, failure(err)
	}
	results, err := c.report(record)
	if err != nil {
		return nil, err
	}
	return results, cmp.Or(job.Journal.settled(record, results), verdict(results))
}

// recover settles what another program has begun.
func (c *Conversation) recover(record *record) ([]Result, error) {
	if err := c.send(record.Changes, child.Request{Recover: &child.Recover{Made: record.made, Protected: record.Protected}}); err != nil {
		return nil, err
	}
	return c.report(record)
}

func (c *Conversation) send(changes []*child.Change, then child.Request) error {
	for _, change := range changes {
		if err := child.Send(c.program, child.Request{Change: change}); err != nil {
			return failure(err)
		}
	}
	if err := child.Send(c.program, then); err != nil {
		return failure(err)
	}
	return nil
}

func (c *Conversation) report(record *record) ([]Result, error) {
	reply, err := c.receive()
	if err != nil {
		return nil, err
	}
	if len(reply.Report) != len(record.Changes) {
		return nil, failure(errors.New("it answers something else than it was asked"))
	}
	return reply.Report, nil
}

func (c *Conversation) receive() (*child.Reply, error) {
	var reply child.Reply
	if err := child.Receive(c.answers, &reply); err != nil {
		return nil, failure(err)
	}
	return &reply, nil
}

// verdict is nil if all files are as they should be. Otherwise it names the first that was the reason.
func verdict(results []Result) error {
	var why *Result
	left, changed := 0, false
	for i, r := range results {
		switch {
		case r.State == Left:
			left++
		case r.State == IsNew:
			continue
		}
		if changed = true; why == nil || why.Why == "" {
			why = &results[i]
		}
	}
	switch {
	case !changed:
		return nil
	case left > 0:
		return refused(why.Path, why.Why+"; the patch was undone, but for "+strconv.Itoa(left)+" files that are not as they were")
	}
	return refused(why.Path, why.Why+"; everything is as it was before the patch")
}

// failure is the error of a program that has died or talks nonsense.
func failure(err error) error {
	if typed, is := errors.AsType[*messages.Error](err); is {
		return typed
	}
	detail := err.Error()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		detail = "it has ended before it answered"
		if err != io.EOF && err != io.ErrUnexpectedEOF {
			detail += " (" + err.Error() + ")"
		}
	}
	return &messages.Error{Code: messages.ErrRuntimeFailure, Op: "apply patch", Subject: "the program that reads and writes the files", Detail: detail}
}

func refused(path, why string) *messages.Error {
	return &messages.Error{Code: messages.ErrWrongState, Op: "apply patch", Subject: path, Detail: why}
}
