package writer_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/patch"
)

// The files of a container's image lie in the lower layer of an overlay. The first write of one copies it up; where the layers lie on several
// file systems, that changes its device and inode.
func TestAFileOfALowerLayerIsPatchedAtTheFirstTry(t *testing.T) {
	for name, apart := range map[string]bool{"layers on one file system": false, "layers on two": true} {
		t.Run(name, func(t *testing.T) {
			for _, level := range []messages.Assurance{messages.AssuranceNone, messages.AssuranceConfined, messages.AssuranceIsolated} {
				t.Run(string(level), func(t *testing.T) {
					dir := work(t)
					lower := overlay(t, dir, apart, func(lower string) {
						put(t, lower+"/a", "old\n")
						put(t, lower+"/inplace", "old\n")
						put(t, lower+"/gone", "gone\n")
						for _, err := range []error{os.Chmod(lower+"/a", 0o750), os.Mkdir(lower+"/sub", 0o755), os.Symlink("inplace", lower+"/link")} {
							if err != nil {
								t.Fatal(err)
							}
						}
						put(t, lower+"/sub/deep", "old\n")
						put(t, lower+"/twice", "old\n")
						if err := os.Link(lower+"/twice", lower+"/second"); err != nil {
							t.Fatal(err)
						}
					})
					m := at(t, level, policy(), dir)
					a, linked := update(dir+"/a", "old\n", "new\n"), update(dir+"/inplace", "old\n", "new\n")
					a.Old.Mode, a.New.Mode, linked.Named = 0o750, 0o750, dir+"/link"
					if _, err := m.apply(t, a, linked, update(dir+"/sub/deep", "old\n", "new\n"), update(dir+"/twice", "old\n", "new\n"),
						add(dir+"/sub/new", "new\n"), remove(dir+"/gone", "gone\n")); err != nil {
						t.Fatal(err)
					}
					for _, file := range []string{"/a", "/inplace", "/sub/deep", "/sub/new", "/twice"} {
						if text, err := os.ReadFile(dir + file); err != nil || string(text) != "new\n" {
							t.Errorf("%s: %q, %v", file, text, err)
						}
					}
					if _, err := os.Lstat(dir + "/gone"); err == nil {
						t.Error("a file that the patch removes is there")
					}
					if s := stat(t, dir+"/a"); s.Mode&0o777 != 0o750 {
						t.Errorf("the mode is %o", s.Mode)
					}
					if text, err := os.ReadFile(lower + "/a"); err != nil || string(text) != "old\n" {
						t.Errorf("the lower layer has %q, %v", text, err)
					}
					// A patch that fails leaves what it has not changed, whatever was copied up for it.
					put(t, dir+"/last", "mine\n")
					looked := m.look(t, dir+"/link", dir+"/sub/deep", dir+"/second", dir+"/last")
					put(t, dir+"/last", "theirs\n")
					_, err := m.write(t, journal(t), looked, nil, update(dir+"/sub/deep", "new\n", "newer\n"), update(dir+"/second", "old\n", "new\n"),
						patch.Change{Path: dir + "/last", Old: &patch.Content{Data: []byte("mine\n"), Mode: 0o644}})
					fails(t, err, "nothing was changed")
				})
			}
		})
	}
}

// overlay mounts a directory over what prepare puts into the lower layer, which it returns.
func overlay(t *testing.T, dir string, apart bool, prepare func(lower string)) (lower string) {
	t.Helper()
	layers := work(t)
	lower = layers + "/lower"
	upper := layers
	mount := func(source, target, kind, options string) {
		if err := unix.Mount(source, target, kind, 0, options); err != nil {
			t.Skipf("this machine or user cannot mount %s: %v", kind, err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	}
	if apart {
		upper = layers + "/apart"
		if err := os.Mkdir(upper, 0o755); err != nil {
			t.Fatal(err)
		}
		mount("none", upper, "tmpfs", "mode=755")
	}
	for _, made := range []string{lower, upper + "/upper", upper + "/work"} {
		if err := os.Mkdir(made, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	prepare(lower)
	mount("overlay", dir, "overlay", "lowerdir="+lower+",upperdir="+upper+"/upper,workdir="+upper+"/work")
	return lower
}
