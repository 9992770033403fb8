package execserver

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/execserver/internal/wire"
)

// hasBirths reports whether the file system of a directory knows when its files were created.
func hasBirths(t *testing.T, dir string) bool {
	var s unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_BTIME, &s); err != nil {
		t.Logf("skipped: statx fails: %v", err)
		return false
	}
	if s.Mask&unix.STATX_BTIME == 0 {
		t.Logf("skipped: the file system of %s does not know when files were created", dir)
		return false
	}
	return true
}

// A new file was created when it was modified first. What is done to it later changes nothing about that.
func TestMetadataHasTheTimeOfCreation(t *testing.T) {
	throughFiles(t, func(t *testing.T, c *client, dir string) {
		if !hasBirths(t, dir) {
			t.SkipNow()
		}
		plain, folder, link, dangling := filepath.Join(dir, "f"), filepath.Join(dir, "d"), filepath.Join(dir, "link"), filepath.Join(dir, "dangling")
		if err := errors.Join(os.WriteFile(plain, nil, 0), os.Mkdir(folder, 0), os.Symlink("nowhere", dangling)); err != nil {
			t.Fatal(err)
		}
		born := map[string]int64{}
		for _, name := range []string{plain, folder, dangling} {
			info, err := os.Lstat(name)
			if err != nil {
				t.Fatal(err)
			}
			born[name] = info.ModTime().UnixMilli()
		}
		born[link] = born[plain] // a link is described by the file to which it leads
		year := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
		if err := errors.Join(os.Chtimes(plain, year, year), os.Chtimes(folder, year, year), os.Symlink("f", link)); err != nil {
			t.Fatal(err)
		}
		for name, want := range born {
			meta := ask[wire.MetadataResult](t, c, wire.GetMetadata, file(name))
			if meta.CreatedAtMs != want {
				t.Errorf("%s was created at %d, want %d", name, meta.CreatedAtMs, want)
			}
			if changed := name != dangling; changed != (meta.ModifiedAtMs == year.UnixMilli()) {
				t.Errorf("%s was modified at %d", name, meta.ModifiedAtMs)
			}
		}
	})
}

// The path may lead to another file, which the client may not see, once its metadata were read.
func TestTheTimeOfCreationIsOfTheSameFile(t *testing.T) {
	dir := t.TempDir()
	if !hasBirths(t, dir) {
		t.SkipNow()
	}
	name := filepath.Join(dir, "f")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	if createdMs(name, info) == 0 {
		t.Error("it is not known")
	}
	if other := createdMs(dir, info); other != 0 {
		t.Errorf("got %d of another file", other)
	}
	if none := createdMs(filepath.Join(dir, "none"), info); none != 0 {
		t.Errorf("got %d of no file", none)
	}
}
