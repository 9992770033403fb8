package spool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/execbus/execbus/messages"
)

// Options of a Store. They are copied.
type Options struct {
	// Dir is where the files are: an absolute path to a directory that belongs to the user of this process alone. A missing one is made.
	// Empty means that nothing is kept: each Write fails.
	Dir string
	// PerProcess bounds the file of one process, in bytes, and Total the files of all. Zero means DefaultPerProcess and DefaultTotal, and
	// LeastPerProcess is the least for both.
	PerProcess int64
	Total      int64
	// Create makes the storage of one process, for a host that keeps its output elsewhere. Nil means a file in Dir.
	Create func() (Storage, error)
}

// Bounds of a Store.
const (
	DefaultPerProcess = 1 << 30
	DefaultTotal      = 8 << 30
	// LeastPerProcess is such that a whole batch of a child, of 64 KiB, takes the place of half of what goes round at most, also
	// in a file that has found no more room.
	LeastPerProcess = 512 << 10
	// MaxFiles bounds the files that are open. Those of processes that have ended give way, the oldest first.
	MaxFiles = 256
	// maxReads bounds the reads that look at files at once; others wait. Each takes up to 2 MiB.
	maxReads = 8
)

// Storage is a file that only this process can find. Its methods are called concurrently. ReadAt and WriteAt are those of package io;
// what they do after Close is an error. Close is called once.
type Storage interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// Store has the files of the processes of a runtime. Its methods are safe for concurrent use.
type Store struct {
	options Options
	reading chan struct{} // has a token for each read

	// The lock is for the counters that all files share: a file that grows needs its answer at once, in the goroutine that writes.
	mu     sync.Mutex
	used   int64
	open   map[*File]bool
	ended  []*File // of processes that write no more, the oldest first
	closed bool

	closing sync.WaitGroup
}

// New makes a Store, and its directory. It removes what a killed process has left there.
func New(o Options) (*Store, error) {
	for _, quota := range []struct {
		name    string
		value   *int64
		initial int64
	}{{"PerProcess", &o.PerProcess, DefaultPerProcess}, {"Total", &o.Total, DefaultTotal}} {
		if *quota.value == 0 {
			*quota.value = quota.initial
		}
		if *quota.value < LeastPerProcess {
			return nil, wrong(quota.name, fmt.Sprintf("%d bytes are too few; use %d or more, or 0 for %d", *quota.value, LeastPerProcess, quota.initial))
		}
	}
	s := &Store{options: o, reading: make(chan struct{}, maxReads), open: map[*File]bool{}}
	if o.Dir == "" || o.Create != nil {
		return s, nil
	}
	if err := prepare(o.Dir); err != nil {
		return nil, err
	}
	s.options.Create = s.create
	return s, nil
}

func wrong(field, detail string) error {
	return &messages.Error{Code: messages.ErrInvalidRequest, Op: "configure", Subject: "Spool." + field, Detail: detail}
}

// prepare makes the directory, and removes files without an owner.
func prepare(dir string) error {
	if !filepath.IsAbs(dir) || strings.ContainsRune(dir, 0) {
		return wrong("Dir", fmt.Sprintf("%q is no absolute path; use one", dir))
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return wrong("Dir", err.Error())
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return wrong("Dir", err.Error())
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return wrong("Dir", err.Error())
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return wrong("Dir", fmt.Sprintf("%s is no directory; name one", dir))
	case known && int(owner.Uid) != os.Geteuid():
		return wrong("Dir", fmt.Sprintf("%s belongs to another user; name a directory of your own", dir))
	case info.Mode().Perm()&0o077 != 0:
		return wrong("Dir", fmt.Sprintf("other users may use %s; change that with: chmod 700 %[1]s", dir))
	}
	left, err := filepath.Glob(filepath.Join(escaped(dir), prefix+"*"))
	if err != nil {
		return wrong("Dir", err.Error())
	}
	for _, name := range left {
		_ = os.Remove(name) // it is of a process that removes it now, or that was killed
	}
	return nil
}

func escaped(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// prefix begins the name that a file has for a moment where the file system cannot make one without a name.
const prefix = "output-"

// create makes a file without a name: nobody else finds it, and it is gone when this process is.
func (s *Store) create() (Storage, error) {
	file, err := openNameless(s.options.Dir)
	if err != nil {
		return nil, err
	}
	if file != nil {
		return file, nil
	}
	return s.createNamed()
}

// createNamed makes a file that has a name for a moment.
func (s *Store) createNamed() (Storage, error) {
	file, err := os.CreateTemp(s.options.Dir, prefix)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) { // another process may have removed it
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Keeps reports whether output is written to files at all.
func (s *Store) Keeps() bool { return s.options.Create != nil }

// Dir is the directory; empty if there is none.
func (s *Store) Dir() string { return s.options.Dir }

// New returns the file of a process. It takes no room on the disk before the first Write.
func (s *Store) New() *File { return &File{store: s} }

// grants gives a file a share of Total that is large enough. Files of processes that have ended make room.
func (s *Store) grants(f *File, need int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || !s.open[f] {
		return false
	}
	more := max(need-f.share, 0)
	for s.used+more > s.options.Total && len(s.ended) > 0 {
		s.remove(s.ended[0])
	}
	if more > 0 && s.used+more > s.options.Total {
		return false
	}
	s.used += more
	f.share += more
	return true
}

var errClosed = &messages.Error{Code: messages.ErrClosed, Op: "keep output", Detail: "the runtime is shut down; start another one"}

// admit opens the storage of a file.
func (s *Store) admit(f *File) error {
	if s.options.Create == nil {
		return &messages.Error{Code: messages.ErrInvalidRequest, Op: "keep output", Detail: "there is no directory for it; name one", Hint: "set Options.Spool.Dir"}
	}
	storage, err := s.options.Create()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= MaxFiles && len(s.ended) > 0 {
		s.remove(s.ended[0])
	}
	switch {
	case s.closed || f.isClosed():
		err = errClosed
	case len(s.open) >= MaxFiles:
		err = &messages.Error{Code: messages.ErrLimitReached, Op: "keep output", Detail: fmt.Sprintf("the output of %d processes is being kept already; end some of them", MaxFiles)}
	default:
		s.open[f] = true
		f.set(storage)
		return nil
	}
	s.close(storage)
	return err
}

// end notes that the process of a file has ended.
func (s *Store) end(f *File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[f] && !slices.Contains(s.ended, f) {
		s.ended = append(s.ended, f)
	}
}

// drop gives up a file.
func (s *Store) drop(f *File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(f)
}

// remove gives up a file. The lock is held.
func (s *Store) remove(f *File) {
	if storage := f.shut(); storage != nil {
		s.close(storage)
	}
	s.ended = slices.DeleteFunc(s.ended, func(other *File) bool { return other == f })
	if s.open[f] {
		delete(s.open, f)
		s.used -= f.share
	}
}

// close closes a storage without waiting: giving back much room takes time.
func (s *Store) close(storage Storage) {
	s.closing.Go(func() { _ = storage.Close() })
}

// Close gives up all files, and waits until their room is given back. A write or a read of a disk that does not answer may hold it up.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	for f := range s.open {
		s.remove(f)
	}
	s.mu.Unlock()
	s.closing.Wait()
}
