package writer

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/patch/writer/internal/child"
)

// Bounds of a journal.
const (
	maxRecord  = 1 << 30 // bytes of one record
	maxRecords = 1024
	// lockWait is how long a patch waits for others to be written.
	lockWait = 10 * time.Second
)

// Journal is a directory with a record for each patch that is being written. It is safe for concurrent use.
type Journal struct{ dir string }

// record is what a journal knows of one patch: two lines, each with its sum. The second comes when all is prepared.
type record struct {
	Version   int
	ID        string
	Policy    json.RawMessage
	Protected []string
	Changes   []*child.Change

	made []child.Made // the second line; nil if there is none
	file *os.File     // open while the patch is written
}

// version is that of the records. Those of another one are left alone.
const version = 1

// newRecord says what a job is to do.
func newRecord(job Job) (*record, error) {
	if len(job.Plan.Changes) > child.MaxChanges {
		return nil, refused("files", "the patch changes "+strconv.Itoa(len(job.Plan.Changes))+" of them; make it smaller, at most "+strconv.Itoa(child.MaxChanges))
	}
	id := rand.Text()
	r := &record{Version: version, ID: id, Policy: job.Policy, Protected: job.Protected}
	at := map[string]int{}
	for i, c := range job.Plan.Changes {
		at[c.Path] = i
	}
	for i, c := range job.Plan.Changes {
		stamp, known := job.Looked.stamps[c.Path]
		if !known {
			return nil, refused(c.Path, "it was not looked at; read it first")
		}
		n := &child.Change{Path: c.Path, Stamp: stamp, Exists: c.Old != nil, Remove: c.New == nil, Like: -1,
			InPlace: job.Looked.Files[c.Named].Link != "" && c.Named != c.Path, Temp: child.TempPrefix + id[:16] + "-" + strconv.Itoa(i)}
		if c.Old != nil {
			n.Old, n.Link = c.Old.Data, c.Old.Link
		}
		if c.New != nil {
			n.New, n.Mode, n.Created = c.New.Data, uint32(c.New.Mode.Perm()), c.New.Created
			if c.Old != nil && c.Old.Link == "" && (c.New.Created || c.New.Mode.Perm() == c.Old.Mode.Perm()) {
				n.Mode = stamp.Mode & 0o7777
			}
		}
		if from, moved := at[c.From]; moved && c.Old == nil && job.Plan.Changes[from].New == nil {
			n.Like = from
		}
		r.Changes = append(r.Changes, n)
	}
	return r, nil
}

// OpenJournal opens the directory of a journal, which it makes if it does not exist. It must be this user's own, and nobody else's to use.
func OpenJournal(dir string) (*Journal, error) {
	if !filepath.IsAbs(dir) {
		return nil, unusable(dir, "it is not absolute; name it from the root")
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, unusable(dir, err.Error())
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, unusable(dir, err.Error())
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, unusable(dir, err.Error())
	}
	if stat, known := info.Sys().(*syscall.Stat_t); !info.IsDir() || !known || int(stat.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return nil, unusable(dir, "it is not a directory that belongs to this user, and that only this user can use; correct that, or name another one")
	}
	return &Journal{dir}, nil
}

func unusable(dir, why string) error {
	return &messages.Error{Code: messages.ErrUnsupported, Op: "apply patch", Subject: "journal " + dir, Detail: why}
}

// lock waits until no other process writes a patch of this journal.
func (j *Journal) lock(ctx context.Context) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(j.dir, "lock"), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, unusable(j.dir, err.Error())
	}
	late := time.After(lockWait)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			return func() { _ = file.Close() }, nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			break
		}
		select {
		case <-time.After(pause):
			continue
		case <-ctx.Done():
			err = ctx.Err()
		case <-late:
			err = errors.New("another patch is being written, for longer than " + lockWait.String())
		}
		break
	}
	_ = file.Close()
	return nil, unusable(j.dir, err.Error())
}

const suffix = ".json"

func (j *Journal) path(r *record) string { return filepath.Join(j.dir, r.ID+suffix) }

// begin writes the first line. The record gets its name when it is complete.
func (j *Journal) begin(r *record) (err error) {
	names, err := j.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if other, err := j.load(name); err == nil && slices.ContainsFunc(other.Changes, r.touches) {
			return refused(filepath.Join(j.dir, name), "a patch to the same files was not finished; call execbus patch recover")
		}
	}
	temp := filepath.Join(j.dir, r.ID+".new")
	if r.file, err = os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600); err != nil {
		return unusable(j.dir, err.Error())
	}
	if err = r.line(r); err == nil {
		err = os.Rename(temp, j.path(r))
	}
	if err != nil {
		_ = r.file.Close()
		_ = os.Remove(temp)
		return unusable(j.dir, err.Error())
	}
	return nil
}

func (r *record) touches(other *child.Change) bool {
	return slices.ContainsFunc(r.Changes, func(c *child.Change) bool { return c.Path == other.Path })
}

// line writes a value with its sum.
func (r *record) line(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if len(text) > maxRecord-1<<20 {
		return errors.New("the patch is too large for it")
	}
	sum := sha256.Sum256(text)
	_, err = r.file.Write(slices.Concat([]byte(hex.EncodeToString(sum[:])), []byte{' '}, text, []byte{'\n'}))
	return err
}

// prepared writes the second line. Without it nothing is in place, so it has to be on the disk first.
func (j *Journal) prepared(r *record, made []child.Made) error {
	err := r.line(made)
	if err == nil {
		err = r.file.Sync()
	}
	if err != nil {
		return unusable(j.path(r), err.Error())
	}
	return nil
}

// end removes a record.
func (j *Journal) end(r *record) error {
	if err := os.Remove(j.path(r)); err != nil {
		return unusable(j.path(r), err.Error())
	}
	return nil
}

// settled removes a record, unless a file needs it still.
func (j *Journal) settled(r *record, results []Result) error {
	for _, result := range results {
		if result.Torn {
			return refused(result.Path, "it is half old and half new, because it cannot be written: "+result.Why+"; correct that, and call execbus patch recover")
		}
	}
	return j.end(r)
}

// names are those of the records. What was never complete is removed.
func (j *Journal) names() (names []string, err error) {
	entries, err := os.ReadDir(j.dir)
	if err != nil {
		return nil, unusable(j.dir, err.Error())
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".new") { // the lock is ours, so nobody writes it
			_ = os.Remove(filepath.Join(j.dir, e.Name()))
		}
		if strings.HasSuffix(e.Name(), suffix) {
			names = append(names, e.Name())
		}
	}
	if len(names) > maxRecords {
		return nil, unusable(j.dir, "there are more than "+strconv.Itoa(maxRecords)+" patches that were not finished; remove what you do not need")
	}
	return names, nil
}

// load reads a record.
func (j *Journal) load(name string) (*record, error) {
	file, err := os.OpenFile(filepath.Join(j.dir, name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	stat, known := info.Sys().(*syscall.Stat_t)
	switch {
	case !known || !info.Mode().IsRegular() || int(stat.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 || stat.Nlink != 1:
		return nil, errors.New("it is not a file of this user alone")
	case info.Size() > maxRecord:
		return nil, errors.New("it is larger than any record")
	}
	text, err := io.ReadAll(io.LimitReader(file, maxRecord))
	if err != nil {
		return nil, err
	}
	first, second, _ := bytes.Cut(text, []byte{'\n'})
	r := &record{}
	if err := parse(first, r); err != nil {
		return nil, err
	}
	if r.Version != version || r.ID+suffix != name || len(r.Changes) > child.MaxChanges {
		return nil, errors.New("it is not a record of this version")
	}
	for _, c := range r.Changes {
		if err := c.Check(); err != nil {
			return nil, err
		}
	}
	if line, _, whole := bytes.Cut(second, []byte{'\n'}); whole { // otherwise its writer was killed, and nothing is in place
		if err := parse(line, &r.made); err != nil {
			return nil, err
		}
		if len(r.made) != len(r.Changes) {
			return nil, errors.New("it is damaged")
		}
	}
	return r, nil
}

func parse(line []byte, value any) error {
	sum, text, _ := bytes.Cut(line, []byte{' '})
	if want := sha256.Sum256(text); hex.EncodeToString(want[:]) != string(sum) || json.Unmarshal(text, value) != nil {
		return errors.New("it is damaged")
	}
	return nil
}

// Recovered is what has become of a patch that was not finished.
type Recovered struct {
	Record  string // the file in the journal
	Results []Result
	// Err says why it is not settled; the record then stays.
	Err error
}

// Recover settles the patches of processes that were killed. For each, begin starts a program as Launch says, under the policy that the
// patch was written under; it is closed afterwards.
func (j *Journal) Recover(ctx context.Context, begin func(ctx context.Context, policy json.RawMessage) (io.ReadWriteCloser, error)) ([]Recovered, error) {
	unlock, err := j.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	names, err := j.names()
	if err != nil {
		return nil, err
	}
	var all []Recovered
	for _, name := range names {
		r := Recovered{Record: filepath.Join(j.dir, name)}
		if r.Results, err = j.recoverOne(ctx, name, begin); err != nil {
			r.Err = refused(r.Record, err.Error())
		}
		all = append(all, r)
	}
	return all, nil
}

func (j *Journal) recoverOne(ctx context.Context, name string, begin func(context.Context, json.RawMessage) (io.ReadWriteCloser, error)) ([]Result, error) {
	r, err := j.load(name)
	if err != nil {
		return nil, errors.New(err.Error() + "; nothing was done with it: look at it and remove it")
	}
	program, err := begin(ctx, r.Policy)
	if err != nil {
		return nil, err
	}
	results, err := New(program).recover(r)
	if err = errors.Join(err, program.Close()); err != nil {
		return nil, err
	}
	return results, j.settled(r, results)
}
