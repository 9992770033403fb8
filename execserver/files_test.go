package execserver

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// realDir makes a directory and returns its path without links.
func realDir(t *testing.T) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// throughFiles runs a test of the methods about files on a server without roots, and on one with a root.
func throughFiles(t *testing.T, test func(t *testing.T, c *client, dir string)) {
	t.Run("everywhere", func(t *testing.T) { test(t, opened(t, Options{}), realDir(t)) })
	t.Run("root", func(t *testing.T) {
		dir := realDir(t)
		test(t, opened(t, Options{Roots: []string{"/usr", dir}}), dir)
	})
}

func file(path string) wire.FileParams { return wire.FileParams{Path: wire.FileURI(path)} }

func TestFilesAreWrittenAndRead(t *testing.T) {
	throughFiles(t, func(t *testing.T, c *client, dir string) {
		name := filepath.Join(dir, "a file%20")
		for _, text := range []string{"first, which is longer", "second"} {
			ask[wire.Empty](t, c, wire.WriteFile, wire.WriteFileParams{Path: name, Data: wire.Chunk(text)})
			if got := ask[wire.ReadFileResult](t, c, wire.ReadFile, file(name)); string(got.Data) != text {
				t.Errorf("got %q", got.Data)
			}
		}
		meta := ask[wire.MetadataResult](t, c, wire.GetMetadata, file(name))
		info, err := os.Stat(name)
		if err != nil || !meta.IsFile || meta.IsDirectory || meta.IsSymlink || meta.Size != 6 || meta.ModifiedAtMs != info.ModTime().UnixMilli() {
			t.Errorf("got %+v, %v", meta, err)
		}
		none := filepath.Join(dir, "none")
		for _, method := range []string{wire.ReadFile, wire.GetMetadata, wire.ReadDirectory, wire.Canonicalize, wire.Walk, wire.Remove} {
			refused(t, c, method, file(none), wire.NotFound, none)
		}
		refused(t, c, wire.WriteFile, wire.WriteFileParams{Path: filepath.Join(none, "x"), Data: wire.Chunk{}}, wire.NotFound)
		refused(t, c, wire.ReadFile, file(dir), wire.Internal, "regular file")
		refused(t, c, wire.ReadFile, wire.FileParams{Path: "relative"}, wire.InvalidParams, "params.path")
		refused(t, c, wire.ReadFile, rawParams(`{"path":"/etc/passwd","sandbox":{}}`), wire.InvalidParams, "params.sandbox")
	})
}

func TestAFileThatWouldMakeAReaderWaitIsRefused(t *testing.T) {
	throughFiles(t, func(t *testing.T, c *client, dir string) {
		fifo := filepath.Join(dir, "fifo")
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, c, wire.ReadFile, file(fifo), wire.Internal, "regular file")
		refused(t, c, wire.WriteFile, wire.WriteFileParams{Path: fifo, Data: wire.Chunk("x")}, wire.Internal)
		refused(t, c, wire.OpenFile, wire.OpenFileParams{HandleID: "h", Path: fifo}, wire.Internal, "regular file")
		refused(t, c, wire.Copy, wire.CopyParams{SourcePath: fifo, DestinationPath: filepath.Join(dir, "copy")}, wire.Internal)
	})
}

func TestALargeFileIsReadInBlocks(t *testing.T) {
	throughFiles(t, func(t *testing.T, c *client, dir string) {
		name := filepath.Join(dir, "large")
		if err := os.WriteFile(name, []byte("0123456789"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(name, maxFile+1); err != nil {
			t.Fatal(err)
		}
		refused(t, c, wire.ReadFile, file(name), wire.InvalidRequest, "in blocks")
		ask[wire.Empty](t, c, wire.OpenFile, wire.OpenFileParams{HandleID: "h", Path: name})
		refused(t, c, wire.OpenFile, wire.OpenFileParams{HandleID: "h", Path: name}, wire.InvalidRequest, "h already exists")
		for _, test := range []struct {
			offset uint64
			length uint32
			got    int
			eof    bool
		}{{2, 3, 3, false}, {0, maxBlock + 5, maxBlock, false}, {maxFile, 10, 1, true}, {maxFile + 1, 10, 0, true}, {1 << 60, 1, 0, true}} {
			block := ask[wire.ReadBlockResult](t, c, wire.ReadBlock, wire.ReadBlockParams{HandleID: "h", Offset: test.offset, Len: test.length})
			if len(block.Chunk) != test.got || block.EOF != test.eof {
				t.Errorf("%+v: got %d bytes, %v", test, len(block.Chunk), block.EOF)
			}
		}
		refused(t, c, wire.ReadBlock, wire.ReadBlockParams{HandleID: "h", Offset: 1 << 63}, wire.InvalidParams, "offset")
		ask[wire.Empty](t, c, wire.CloseFile, wire.CloseFileParams{HandleID: "h"})
		ask[wire.Empty](t, c, wire.CloseFile, wire.CloseFileParams{HandleID: "h"})
		refused(t, c, wire.ReadBlock, wire.ReadBlockParams{HandleID: "h", Len: 1}, wire.NotFound, "unknown handle h")
		for i := range maxHandles {
			ask[wire.Empty](t, c, wire.OpenFile, wire.OpenFileParams{HandleID: string(rune('A' + i)), Path: name})
		}
		refused(t, c, wire.OpenFile, wire.OpenFileParams{HandleID: "more", Path: name}, wire.Internal, "limit of 64 open files")
	})
}

func TestDirectoriesAreMadeListedAndRemoved(t *testing.T) {
	throughFiles(t, func(t *testing.T, c *client, dir string) {
		deep := filepath.Join(dir, "a", "b")
		refused(t, c, wire.CreateDirectory, wire.CreateDirectoryParams{Path: deep}, wire.NotFound)
		ask[wire.Empty](t, c, wire.CreateDirectory, wire.CreateDirectoryParams{Path: deep, Recursive: new(true)})
		ask[wire.Empty](t, c, wire.CreateDirectory, wire.CreateDirectoryParams{Path: filepath.Join(dir, "c")})
		if err := errors.Join(os.WriteFile(filepath.Join(deep, "f"), nil, 0o600), os.Symlink("b/f", filepath.Join(dir, "a", "link")), os.Symlink("nowhere", filepath.Join(dir, "a", "dangling"))); err != nil {
			t.Fatal(err)
		}
		listed := ask[wire.ReadDirectoryResult](t, c, wire.ReadDirectory, file(filepath.Join(dir, "a")))
		want := []wire.DirectoryEntry{{FileName: "b", IsDirectory: true}, {FileName: "dangling"}, {FileName: "link", IsFile: true}}
		if len(listed.Entries) != 3 || listed.Entries[0] != want[0] || listed.Entries[1] != want[1] || listed.Entries[2] != want[2] {
			t.Errorf("got %+v", listed)
		}
		if meta := ask[wire.MetadataResult](t, c, wire.GetMetadata, file(filepath.Join(dir, "a", "link"))); !meta.IsSymlink || !meta.IsFile {
			t.Errorf("got %+v", meta)
		}
		if got := ask[wire.CanonicalizeResult](t, c, wire.Canonicalize, file(filepath.Join(dir, "a", "link"))); got.Path != wire.FileURI(filepath.Join(deep, "f")) {
			t.Errorf("got %+v", got)
		}
		walked := ask[wire.WalkResult](t, c, wire.Walk, file(dir))
		var paths []string
		for _, e := range walked.Entries {
			paths = append(paths, strings.TrimPrefix(e.Path, wire.FileURI(dir)))
		}
		if got := strings.Join(paths, " "); got != "/a /a/b /a/b/f /a/dangling /a/link /c" || walked.Truncated || len(walked.Errors) != 0 {
			t.Errorf("got %s, %+v", got, walked)
		}
		for _, options := range []wire.WalkOptions{{MaxDepth: new(uint32(1))}, {MaxEntries: new(uint32(2))}} {
			if walked := ask[wire.WalkResult](t, c, wire.Walk, wire.WalkParams{Path: dir, Options: options}); len(walked.Entries) != 2 || !walked.Truncated {
				t.Errorf("%+v: got %+v", options, walked)
			}
		}
		refused(t, c, wire.Remove, wire.RemoveParams{Path: deep}, wire.Internal, deep)
		ask[wire.Empty](t, c, wire.Remove, wire.RemoveParams{Path: filepath.Join(dir, "a"), Recursive: new(true)})
		refused(t, c, wire.Remove, wire.RemoveParams{Path: deep}, wire.NotFound)
		ask[wire.Empty](t, c, wire.Remove, wire.RemoveParams{Path: deep, Force: new(true)})
		ask[wire.Empty](t, c, wire.Remove, wire.RemoveParams{Path: filepath.Join(dir, "c")})
	})
}

func TestFilesAreCopied(t *testing.T) {
	throughFiles(t, func(t *testing.T, c *client, dir string) {
		from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
		if err := errors.Join(os.MkdirAll(filepath.Join(from, "x"), 0o755), os.WriteFile(filepath.Join(from, "x", "f"), []byte("text"), 0o750), os.Symlink("x/f", filepath.Join(from, "link"))); err != nil {
			t.Fatal(err)
		}
		refused(t, c, wire.Copy, wire.CopyParams{SourcePath: from, DestinationPath: to}, wire.InvalidRequest, "recursive")
		refused(t, c, wire.Copy, wire.CopyParams{SourcePath: from, DestinationPath: filepath.Join(from, "x", "y"), Recursive: true}, wire.InvalidRequest, "inside")
		ask[wire.Empty](t, c, wire.Copy, wire.CopyParams{SourcePath: from, DestinationPath: to, Recursive: true})
		text, err := os.ReadFile(filepath.Join(to, "link"))
		info, failed := os.Stat(filepath.Join(to, "x", "f"))
		if target, _ := os.Readlink(filepath.Join(to, "link")); err != nil || failed != nil || string(text) != "text" || target != "x/f" || info.Mode().Perm() != 0o750 {
			t.Errorf("got %q, %v, %v, %v", text, err, info, failed)
		}
		one := filepath.Join(from, "x", "f")
		refused(t, c, wire.Copy, wire.CopyParams{SourcePath: one, DestinationPath: one}, wire.Internal, "itself")
		if text, err := os.ReadFile(one); err != nil || string(text) != "text" {
			t.Errorf("got %q, %v", text, err)
		}
		refused(t, c, wire.Copy, wire.CopyParams{SourcePath: filepath.Join(dir, "none"), DestinationPath: to}, wire.NotFound)
	})
}

func TestNothingLeadsOutOfTheRoots(t *testing.T) {
	outside, dir := realDir(t), realDir(t)
	secret := filepath.Join(outside, "secret")
	if err := errors.Join(os.WriteFile(secret, []byte("secret"), 0o600), os.Symlink(secret, filepath.Join(dir, "absolute")),
		os.Symlink("../"+filepath.Base(outside), filepath.Join(dir, "up")), os.Symlink(outside, filepath.Join(dir, "dir"))); err != nil {
		t.Fatal(err)
	}
	c := opened(t, Options{Roots: []string{dir}})
	for _, path := range []string{secret, filepath.Join(dir, "..", filepath.Base(outside), "secret"), "/", filepath.Dir(dir), dir + "x", "/etc/passwd"} {
		refused(t, c, wire.ReadFile, wire.FileParams{Path: path}, wire.InvalidRequest, "outside")
		refused(t, c, wire.Remove, wire.RemoveParams{Path: path, Recursive: new(true), Force: new(true)}, wire.InvalidRequest, "outside")
	}
	for _, name := range []string{"absolute", "up/secret", "dir/secret"} {
		path := filepath.Join(dir, name)
		for _, method := range []string{wire.ReadFile, wire.Canonicalize} {
			if result, fault := understood[any](t, c.send(method, file(path))); fault == nil {
				t.Errorf("%s %s: got %v", method, name, result)
			}
		}
		if result, fault := understood[any](t, c.send(wire.WriteFile, wire.WriteFileParams{Path: path, Data: wire.Chunk("changed")})); fault == nil {
			t.Errorf("%s: got %v", name, result)
		}
		if result, fault := understood[any](t, c.send(wire.OpenFile, wire.OpenFileParams{HandleID: name, Path: path})); fault == nil {
			t.Errorf("%s: got %v", name, result)
		}
		copied := filepath.Join(dir, "copied-"+filepath.Base(name)+filepath.Dir(name))
		_, _ = understood[any](t, c.send(wire.Copy, wire.CopyParams{SourcePath: path, DestinationPath: copied, Recursive: true}))
		if result, fault := understood[any](t, c.send(wire.ReadFile, file(copied))); fault == nil {
			t.Errorf("%s: its copy has %v", name, result)
		}
	}
	for _, name := range []string{"up", "dir"} {
		for _, method := range []string{wire.ReadDirectory, wire.Walk} {
			if result, fault := understood[any](t, c.send(method, file(filepath.Join(dir, name)))); fault == nil {
				t.Errorf("%s %s: got %v", method, name, result)
			}
		}
		ask[wire.Empty](t, c, wire.Remove, wire.RemoveParams{Path: filepath.Join(dir, name), Recursive: new(true)})
	}
	refused(t, c, wire.Remove, wire.RemoveParams{Path: dir, Recursive: new(true)}, wire.InvalidRequest, "cannot be removed")
	if text, err := os.ReadFile(secret); err != nil || !bytes.Equal(text, []byte("secret")) {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestAConfinedServerHasNoFilesWithoutRoots(t *testing.T) {
	dir := confinable(t)
	own := ptyio.Confinement{Policy: messages.SandboxPolicy{Type: messages.SandboxReadOnly}, Dir: dir, Least: messages.AssuranceConfined}
	c := opened(t, Options{Confinement: &own})
	refused(t, c, wire.WriteFile, wire.WriteFileParams{Path: filepath.Join(dir, "f"), Data: wire.Chunk("x")}, wire.InvalidRequest, "confines")
	for _, roots := range [][]string{{"relative"}, {filepath.Join(dir, "none")}, {dir, "/etc/passwd"}} {
		if _, err := NewServer(newSpawner(t), Options{Roots: roots}); err == nil {
			t.Errorf("%q are roots", roots)
		}
	}
}

// replaced is a root in which a link is replaced after the first look.
type replaced struct {
	tree
	target string
}

func (r replaced) Readlink(string) (string, error) { return r.target, nil }

func TestPathsAreResolvedBelowTheirRoot(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(dir+"/root/a/b", 0o755), os.WriteFile(dir+"/root/a/b/f", nil, 0o644), os.WriteFile(dir+"/secret", nil, 0o644),
		os.Symlink("root", dir+"/way"), os.Symlink("a/b/../b", dir+"/root/link"), os.Symlink("loop", dir+"/root/loop")); err != nil {
		t.Fatal(err)
	}
	roots, err := openRoots([]string{dir + "/way"})
	if err != nil {
		t.Fatal(err)
	}
	defer closeRoots(roots)
	in := roots[0].tree
	if path, err := (location{in, "link/f", dir + "/way/link/f"}).canonical(); path != dir+"/way/a/b/f" || err != nil { // as the client has to name it
		t.Errorf("%s, %v", path, err)
	}
	if path, err := (location{in, ".", dir + "/way."}).canonical(); path != dir+"/way." || err != nil {
		t.Errorf("%s, %v", path, err)
	}
	for _, target := range []string{"../secret", dir + "/secret", "a/../../secret", "/"} {
		if path, err := (location{replaced{in, target}, "link", dir + "/way/link"}).canonical(); err == nil {
			t.Errorf("a link to %s leads to %s", target, path)
		}
	}
	if path, err := (location{in, "loop", dir + "/way/loop"}).canonical(); err == nil {
		t.Error(path)
	}
}
