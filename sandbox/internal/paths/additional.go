package paths

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/execbus/execbus/internal/follow"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox/internal/confine"
)

// maxAdditional bounds the paths that one command may ask for.
const maxAdditional = 16

// Widen returns a copy with one command's additional permissions. The copy has its own descriptors.
func (f *Found) Widen(more messages.AdditionalPermissions, dir string) (*Found, error) {
	w := &finder{found: Found{names: f.names, settings: f.settings}}
	w.found.Plan = confine.Plan{Network: f.Plan.Network, Proxied: f.Plan.Proxied, ByName: f.Plan.ByName, Resolvers: f.Plan.Resolvers, Rules: slices.Clone(f.Plan.Rules), Sockets: slices.Clone(f.Plan.Sockets)}
	w.found.Gaps, w.found.given = slices.Clone(f.Gaps), slices.Clone(f.given)
	for _, file := range f.Files {
		copied, err := duplicate(file)
		if err != nil {
			w.found.Close()
			return nil, err
		}
		w.found.Files = append(w.found.Files, copied)
	}
	if err := w.add(&more, dir); err != nil {
		w.found.Close()
		return nil, err
	}
	w.sort()
	return &w.found, nil
}

// add adds one command's additional permissions. It never takes any away.
func (f *finder) add(more *messages.AdditionalPermissions, dir string) error {
	if more == nil {
		return nil
	}
	if more.Network != nil && more.Network.Enabled {
		f.found.Plan.Network = true
	}
	if more.FileSystem == nil {
		return nil
	}
	if n := len(more.FileSystem.Read) + len(more.FileSystem.Write); n > maxAdditional {
		return refused("additional permissions", "there are too many paths; ask for 16 at most")
	}
	for _, path := range more.FileSystem.Read {
		if err := f.addRead(absolute(path, dir)); err != nil {
			return err
		}
	}
	for _, path := range more.FileSystem.Write {
		if err := f.addWrite(absolute(path, dir)); err != nil {
			return err
		}
	}
	return nil
}

func absolute(path, dir string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// addRead lifts a denial.
func (f *finder) addRead(path string) error {
	end, err := follow.Path(path)
	if err == nil {
		end.Close()
	}
	if err == nil && len(end.Below) == 0 && f.access(end.Path) != confine.Nothing {
		return nil
	}
	_, err = f.additional(path, confine.Read)
	return err
}

// addWrite makes a path writable, even if it is protected. Protected names inside it stay protected.
func (f *finder) addWrite(path string) error {
	if f.create(path) {
		return nil
	}
	rule, err := f.additional(path, confine.Write)
	if err != nil || slices.Contains(f.found.names, filepath.Base(rule.Path)) {
		return err
	}
	if err := f.protect(rule, false); err != nil {
		return err
	}
	return f.keepSettings()
}

// additional adds a path that one command asks for.
func (f *finder) additional(path string, access confine.Access) (confine.Rule, error) {
	opened, err := f.openFixed(path)
	if loose, is := errors.AsType[*messages.Error](err); is {
		return confine.Rule{}, loose
	}
	if err != nil {
		return confine.Rule{}, refused(path, reason(err)+"; ask for what exists")
	}
	rule, _ := f.take(path, opened, access)
	return rule, nil
}

// create allows a name to be created that does not exist and lies where commands can write, even if it is protected. A
// placeholder counts as nothing.
func (f *finder) create(path string) bool {
	if _, ours, err := settled(path); !errors.Is(err, fs.ErrNotExist) && !ours {
		return false
	}
	parent, err := follow.Path(filepath.Dir(path))
	if err != nil {
		return false
	}
	parent.Close()
	if parent.Loose() != nil || len(parent.Below) > 0 {
		return false
	}
	path = filepath.Join(parent.Path, filepath.Base(path))
	if i := slices.IndexFunc(f.found.Plan.Rules, func(p confine.Rule) bool {
		return p.Path == path && p.Missing() && p.Access == confine.Read
	}); i >= 0 {
		f.found.Plan.Rules[i].Access = confine.Write
	}
	return f.access(path) == confine.Write
}
