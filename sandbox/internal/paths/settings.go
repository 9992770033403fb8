package paths

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"github.com/execbus/execbus/internal/own"
	"github.com/execbus/execbus/sandbox/internal/confine"
)

// keepSettings protects the settings of execbus and the rule files, as far as commands could change them: they decide what later commands
// may do. A directory for settings is made where a command could make it.
func (f *finder) keepSettings() error {
	if !f.found.Plan.Writes() {
		return nil
	}
	dirs, files := own.Files()
	for _, dir := range dirs {
		if f.access(resolved(dir)) != confine.Write {
			continue
		}
		if err := os.MkdirAll(dir, 0o700); err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS) { // a command may do no more than this process
			return refused(dir, reason(err)+"; it holds settings that commands must not change, and cannot be made")
		}
	}
	for _, path := range slices.Concat(dirs, files, f.found.settings) {
		if _, err := f.reach("/", path, false); err != nil && !errors.Is(err, fs.ErrPermission) {
			return refused(path, reason(err)+"; it holds settings that commands must not change, but cannot be found")
		}
	}
	return nil
}
