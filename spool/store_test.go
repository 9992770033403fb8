package spool

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/execbus/execbus/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func store(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// fill writes chunks of 8 KiB with different bytes, and returns what it has written.
func fill(t *testing.T, f *File, o *output, chunks int) error {
	t.Helper()
	for range chunks {
		chunk := o.add(messages.StreamPTY, bytes.Repeat([]byte{byte('a' + o.seq%26)}, 8<<10))
		if err := f.Write([]messages.OutputChunk{chunk}, 0); err != nil {
			return err
		}
	}
	return nil
}

// Nobody finds a file in the directory, which is the user's alone; and there is none without output.
func TestFilesHaveNoNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "output")
	s := store(t, Options{Dir: dir})
	f := s.New()
	if len(s.open) != 0 {
		t.Error("a file without output is open")
	}
	if err := fill(t, f, &output{}, 4); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 0 {
		t.Errorf("%v, %v", names, err)
	}
	for at, want := range map[string]os.FileMode{dir: 0o700, filepath.Dir(dir): 0o700} {
		if info, err := os.Stat(at); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", at, info.Mode(), err)
		}
	}
	_, storage := f.now()
	if info, err := storage.(*os.File).Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// Where the file system makes no file without a name, the name is gone before anything is written, and one that is left is removed.
func TestNamesThatAreLeftAreRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out[1]*")
	s := store(t, Options{Dir: dir})
	for _, name := range []string{prefix + "123", "kept"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file, err := s.createNamed()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt([]byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	store(t, Options{Dir: dir})
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 || names[0].Name() != "kept" {
		t.Errorf("%v, %v", names, err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	here := t.TempDir()
	open, file, link := filepath.Join(here, "open"), filepath.Join(here, "file"), filepath.Join(here, "link")
	for _, err := range []error{os.Mkdir(open, 0o700), os.Chmod(open, 0o750), os.WriteFile(file, nil, 0o600), os.Symlink(here, link)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		options Options
		says    string
	}{
		"a relative path":     {Options{Dir: "output"}, "Spool.Dir"},
		"a NUL":               {Options{Dir: "/a\x00b"}, "Spool.Dir"},
		"open to others":      {Options{Dir: open}, "chmod 700"},
		"a file":              {Options{Dir: file}, "no directory"},
		"below a file":        {Options{Dir: filepath.Join(file, "x")}, "Spool.Dir"},
		"a link":              {Options{Dir: link}, "no directory"},
		"too small":           {Options{PerProcess: LeastPerProcess - 1}, "Spool.PerProcess"},
		"negative":            {Options{PerProcess: -1}, "Spool.PerProcess"},
		"too small, together": {Options{Total: 1}, "Spool.Total"},
	} {
		s, err := New(c.options)
		if !errors.Is(err, messages.ErrInvalidRequest) || !strings.Contains(err.Error(), c.says) || s != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if os.Geteuid() == 0 {
		theirs := filepath.Join(here, "theirs")
		if err := errors.Join(os.Mkdir(theirs, 0o700), os.Chown(theirs, 65534, 65534)); err != nil {
			t.Fatal(err)
		}
		if _, err := New(Options{Dir: theirs}); err == nil || !strings.Contains(err.Error(), "another user") {
			t.Errorf("%v", err)
		}
	}
	s := store(t, Options{})
	if err := s.New().Write([]messages.OutputChunk{{Seq: 1, Bytes: []byte("x")}}, 0); !errors.Is(err, messages.ErrInvalidRequest) || s.Keeps() {
		t.Errorf("without a directory: %v", err)
	}
}

// Files of processes that have ended make room for those that live, the oldest first; and where none has, a file goes round in what it has.
func TestTotalBoundsAllFiles(t *testing.T) {
	s := store(t, Options{Dir: filepath.Join(t.TempDir(), "o"), PerProcess: 1 << 20, Total: 2 << 20})
	files, outputs := make([]*File, 3), make([]*output, 3)
	for i := range files {
		files[i], outputs[i] = s.New(), &output{}
	}
	for i := range 2 {
		if err := fill(t, files[i], outputs[i], 100); err != nil { // 800 KiB
			t.Fatal(err)
		}
	}
	if err := fill(t, files[2], outputs[2], 100); err != nil {
		t.Fatal(err)
	}
	if r := files[2].Ranges(); len(r) != 2 || r[1].End != 800<<10 || r[0].First != 0 {
		t.Errorf("the third file has %v", r)
	}
	if s.used > s.options.Total {
		t.Errorf("%d bytes of %d", s.used, s.options.Total)
	}
	files[1].End()
	files[0].End()
	files[1].End()
	fourth := s.New()
	if err := fill(t, fourth, &output{}, 100); err != nil {
		t.Fatal(err)
	}
	if files[1].Ranges() != nil || files[0].Ranges() == nil || files[2].Ranges() == nil {
		t.Errorf("the one that ended first has %v, the other %v, the living one %v", files[1].Ranges(), files[0].Ranges(), files[2].Ranges())
	}
	if err := files[1].Write([]messages.OutputChunk{{Seq: 101, Offset: 800 << 10, Bytes: []byte("x")}}, 0); !errors.Is(err, messages.ErrClosed) {
		t.Errorf("a write to a file that gave way: %v", err)
	}
}

func TestFilesAreBounded(t *testing.T) {
	s := tiny(4096, 1<<30, func() Storage { return &disk{} })
	one := []messages.OutputChunk{{Seq: 1, Stream: messages.StreamPTY, Bytes: []byte("x")}}
	var first *File
	for i := range MaxFiles {
		f := s.New()
		if err := f.Write(one, 0); err != nil {
			t.Fatal(i, err)
		}
		if first == nil {
			first = f
		}
	}
	late := s.New()
	if err := late.Write(one, 0); !errors.Is(err, messages.ErrLimitReached) {
		t.Errorf("one file too many: %v", err)
	}
	first.End()
	if err := late.Write(one, 0); err != nil || first.Ranges() != nil || len(s.open) != MaxFiles {
		t.Errorf("%v, %v, %d files", err, first.Ranges(), len(s.open))
	}
	s.Close()
	if err := s.New().Write(one, 0); !errors.Is(err, messages.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// A file that finds no more room goes round in what it has, wherever that ends, and what it says it has can be read.
func TestAFileWithoutMoreRoomGoesRound(t *testing.T) {
	for total := int64(620); total < 700; total++ {
		f, o := tiny(1024, total, func() Storage { return &disk{} }).New(), &output{}
		for i := range 100 {
			if err := f.Write([]messages.OutputChunk{o.add(messages.StreamPTY, bytes.Repeat([]byte{byte('a' + i%26)}, 13))}, 0); err != nil {
				t.Fatal(total, i, err)
			}
			for _, r := range f.Ranges() {
				got := make([]byte, r.End-r.First)
				if n, err := f.bytes(got, r.First); err != nil || !bytes.Equal(got[:n], o.bytes[r.First:r.End]) {
					t.Fatalf("of %d bytes, %+v: %q, %v", total, r, got, err)
				}
			}
		}
		if c, _ := f.now(); !c.bytes.full() || c.bytes.size > total {
			t.Fatalf("it has not gone round: %+v", c)
		}
	}
}

// The least quotas do for output that comes in batches as large as a child's are, 64 KiB, from the first one on and also where another file
// has taken so much that the first goes round in less than its quota.
func TestTheLeastQuotasTakeFullBatches(t *testing.T) {
	for name, others := range map[string]int64{"alone": 0, "beside another": LeastPerProcess / 2} {
		s := store(t, Options{Dir: filepath.Join(t.TempDir(), "o"), PerProcess: LeastPerProcess, Total: LeastPerProcess + others})
		if others > 0 {
			if err := fill(t, s.New(), &output{}, int(others/(8<<10))-4); err != nil {
				t.Fatal(err)
			}
		}
		f, o := s.New(), &output{}
		for i := range 20 {
			batch := []messages.OutputChunk{o.add(messages.StreamStdout, bytes.Repeat([]byte{byte('a' + i%26)}, 64<<10))}
			if i%3 == 0 {
				batch = append(batch, o.add(messages.StreamStderr, bytes.Repeat([]byte{'!'}, 64<<10)))
			}
			if err := f.Write(batch, 0); err != nil {
				t.Fatalf("%s: batch %d: %v", name, i, err)
			}
		}
		r := f.Ranges()
		if len(r) != 2 || r[0].First != 0 || r[1].End != int64(len(o.bytes)) || min(r[0].End, r[1].End-r[1].First) < 64<<10 {
			t.Errorf("%s: %v", name, r)
		}
		for _, r := range r {
			got := make([]byte, r.End-r.First)
			if n, err := f.bytes(got, r.First); err != nil || !bytes.Equal(got[:n], o.bytes[r.First:r.End]) {
				t.Errorf("%s: %v is not what was written, %v", name, r, err)
			}
		}
	}
}
