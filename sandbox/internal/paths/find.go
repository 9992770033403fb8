package paths

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/execbus/execbus/internal/follow"
	"github.com/execbus/execbus/internal/placeholder"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/confine"
)

// protected are the names that stay read-only at the top of every writable directory.
var protected = []string{".git", ".agents", ".codex"}

// Found is a confinement with its paths looked up. Only Close changes it.
type Found struct {
	Plan confine.Plan
	// Files are the descriptors that the rules of the plan refer to.
	Files []*os.File
	// Gaps are the paths that were not searched, and so are not protected.
	Gaps []messages.Missing

	given    []given
	names    []string // protected names
	settings []string // protected paths
}

// given is a path as it was given, and the file that it led to: none for a denied path that does not exist.
type given struct {
	path, real string
	led        identity
}

// Protects names the first protected path inside a writable one; empty if there is none.
func (f *Found) Protects() string {
	for i, p := range f.Plan.Rules {
		if p.Access == confine.Read && p.Inode != 0 && confine.AccessAmong(f.Plan.Rules[:i], p.Path) == confine.Write {
			return p.Path
		}
	}
	return ""
}

// Keeps returns the protected paths inside writable ones, and those that must not be read.
func (f *Found) Keeps() (unwritable, unreadable []string) {
	for i, p := range f.Plan.Rules {
		switch {
		case p.Access == confine.Nothing:
			unreadable = append(unreadable, p.Path)
		case p.Access == confine.Read && confine.AccessAmong(f.Plan.Rules[:i], p.Path) == confine.Write:
			unwritable = append(unwritable, p.Path)
		}
	}
	return unwritable, unreadable
}

// Denies names the first path that must not be read; empty if there is none.
func (f *Found) Denies() string {
	for _, p := range f.Plan.Rules {
		if p.Access == confine.Nothing {
			return p.Path
		}
	}
	return ""
}

// Check returns an error unless the paths still lead where they did. It may block.
func (f *Found) Check() error {
	for _, g := range f.given {
		now, err := openPath(g.path)
		if err == nil {
			now.close()
		}
		switch {
		case g.led == (identity{}):
			if err == nil && !placeholder.Is(g.path) {
				return refused(g.path, "it shall not be read, and was not there when the sandbox policy was set; set the policy again")
			}
		case err != nil:
			return refused(g.path, reason(err)+", and it was there when the sandbox policy was set; set the policy again")
		case now.identity != g.led || now.path != g.real:
			return refused(g.path, "it leads elsewhere than when the sandbox policy was set; set the policy again")
		}
	}
	return nil
}

// Close closes the descriptors.
func (f *Found) Close() {
	for _, file := range f.Files {
		_ = file.Close()
	}
}

// finder collects the rules.
type finder struct {
	found  Found
	bounds Bounds
}

// Find looks up the paths of a confinement.
func Find(c ptyio.Confinement, bounds Bounds) (*Found, error) {
	if c.Policy.Network != nil && c.Proxy == nil {
		return nil, &messages.Error{Code: messages.ErrUnsupported, Op: "confine", Subject: "network",
			Detail: "commands may talk to some hosts only, and there is no proxy here by which they could; give them no network or all of it",
			Hint:   "set Confinement.Proxy"}
	}
	f := &finder{bounds: bounds, found: Found{names: slices.Concat(protected, c.Policy.ProtectedNames), settings: c.Protected}}
	f.found.Plan.Network, f.found.Plan.Proxied = c.Policy.NetworkAccess, c.Proxy != nil
	if c.Names != nil {
		f.found.Plan.ByName = c.ByName[:min(len(c.ByName), confine.MaxByName)]
		f.found.Plan.Resolvers, _ = filepath.EvalSymlinks("/etc/resolv.conf") // without one, programs do not ask
	}
	err := f.all(c)
	if err != nil {
		f.found.Close()
		return nil, err
	}
	f.sort()
	return &f.found, nil
}

func (f *finder) all(c ptyio.Confinement) error {
	workspace, temporary, err := f.roots(c)
	if err != nil {
		return err
	}
	for _, root := range slices.Concat(workspace, temporary) {
		if slices.Contains(f.found.names, filepath.Base(root.Path)) {
			continue // the policy names it, so it can be written as a whole
		}
		if err := f.protect(root, !slices.Contains(workspace, root)); err != nil {
			return err
		}
	}
	f.nested(workspace)
	if err := f.keepSettings(); err != nil {
		return err
	}
	for _, path := range c.Policy.DeniedReads {
		if err := f.deny(path); err != nil {
			return err
		}
	}
	for _, path := range c.Policy.Sockets {
		f.socket(path)
	}
	return f.add(c.Additional, c.AdditionalDir)
}

// roots returns the writable directories: those of the workspace, and those for temporary files, which strangers use, too. The latter
// may be missing.
func (f *finder) roots(c ptyio.Confinement) (workspace, temporary []confine.Rule, err error) {
	if c.Policy.Type != messages.SandboxWorkspaceWrite {
		return nil, nil, nil
	}
	type root struct {
		path      string
		temporary bool
	}
	all := []root{{c.Dir, false}}
	for _, path := range c.Policy.WritableRoots {
		all = append(all, root{path, false})
	}
	if c.TempDir != "" && !c.Policy.ExcludeTmpdirEnvVar {
		all = append(all, root{c.TempDir, true})
	}
	if !c.Policy.ExcludeSlashTmp {
		all = append(all, root{"/tmp", true})
	}
	for _, r := range all {
		opened, err := f.openFixed(r.path)
		if r.temporary && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if loose, is := errors.AsType[*messages.Error](err); is {
			return nil, nil, loose
		}
		if err != nil {
			return nil, nil, refused(r.path, reason(err)+"; commands are to write there: create it, or leave it out of the policy")
		}
		rule, known := f.take(r.path, opened, confine.Write)
		switch {
		case known: // by another name
		case r.temporary:
			temporary = append(temporary, rule)
		default:
			workspace = append(workspace, rule)
		}
	}
	return workspace, temporary, nil
}

// openFixed follows a path to its end, unless it crosses a link that a command may have made: what lies behind that may be what commands
// shall not write.
func (f *finder) openFixed(path string) (opened, error) {
	end, err := follow.Path(path)
	if err != nil {
		return opened{}, err
	}
	link := end.Loose()
	switch {
	case link != nil:
		err = refused(path, fmt.Sprintf("it crosses the symbolic link %q to %q, which a command may have made, because others than root can "+
			"write in its directory; if commands shall write there, name %q instead", link.Path, link.Target, end.Path))
	case len(end.Below) > 0:
		err = &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	if err != nil {
		end.Close()
		return opened{}, err
	}
	return opened{path: end.Path, identity: identity{end.Device, end.Inode}, directory: end.Directory(), file: end.File}, nil
}

// take adds a rule for what a path has led to, unless it is known with this access.
func (f *finder) take(path string, opened opened, access confine.Access) (rule confine.Rule, known bool) {
	f.found.given = append(f.found.given, given{path, opened.path, opened.identity})
	if i := slices.IndexFunc(f.found.Plan.Rules, func(p confine.Rule) bool {
		return p.Path == opened.path && p.Access == access && !p.Missing()
	}); i >= 0 {
		opened.close()
		return f.found.Plan.Rules[i], true
	}
	rule = confine.Rule{Path: opened.path, Access: access, Device: opened.device, Inode: opened.inode, Directory: opened.directory,
		IfThere: access == confine.Read, File: -1}
	if opened.file != nil {
		rule.File = len(f.found.Files)
		f.found.Files = append(f.found.Files, opened.file)
	}
	f.found.Plan.Rules = append(f.found.Plan.Rules, rule)
	return rule, false
}

// deny adds a path that must not be read; it need not exist.
func (f *finder) deny(path string) error {
	if !filepath.IsAbs(path) {
		return refused(path, "it is not absolute; it must not be read, but cannot be found")
	}
	opened, err := opened{}, error(fs.ErrNotExist)
	if !placeholder.Is(path) {
		opened, err = openPath(path)
	}
	switch {
	case err == nil:
		f.take(path, opened, confine.Nothing)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission): // if we may not reach it now, no command may later
		f.found.Plan.Rules = append(f.found.Plan.Rules, confine.Rule{Path: resolved(path), Access: confine.Nothing, File: -1})
		f.found.given = append(f.found.given, given{path: path}) // nothing covers it in a directory that cannot be written, so Check has to look
	default:
		return refused(path, reason(err)+"; it must not be read, but cannot be found")
	}
	return nil
}

// resolved follows the symbolic links of the part of a path that exists.
func resolved(path string) string {
	path = filepath.Clean(path)
	if full, err := filepath.EvalSymlinks(path); err == nil {
		return full
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(resolved(parent), filepath.Base(path))
	}
	return path
}

// socket adds a unix socket that stays within reach. A socket that does not exist now will not be reachable.
func (f *finder) socket(path string) {
	opened, err := openPath(path)
	if err == nil && !opened.socket {
		opened.close()
		err = errors.New("it is not a socket")
	}
	if err != nil {
		f.gap("the socket "+path, reason(err)+" when the policy was set")
		return
	}
	rule := confine.Rule{Path: opened.path, Access: confine.Write, Device: opened.device, Inode: opened.inode, File: -1}
	if opened.file != nil {
		rule.File = len(f.found.Files)
		f.found.Files = append(f.found.Files, opened.file)
	}
	f.found.Plan.Sockets = append(f.found.Plan.Sockets, rule)
}

func (f *finder) gap(what, why string) {
	f.found.Gaps = append(f.found.Gaps, messages.Missing{What: what, Why: why})
}

// sort puts the rules for more specific paths behind the others. If several have the same path, the last one added counts.
func (f *finder) sort() {
	rules := f.found.Plan.Rules
	last := map[string]int{}
	for i, p := range rules {
		last[p.Path] = i
	}
	kept := rules[:0]
	for i, p := range rules {
		if last[p.Path] == i {
			kept = append(kept, p)
		}
	}
	slices.SortStableFunc(kept, func(a, b confine.Rule) int { return cmp.Compare(confine.Depth(a.Path), confine.Depth(b.Path)) })
	f.found.Plan.Rules = kept
}

func refused(path, detail string) error {
	return &messages.Error{Code: messages.ErrInvalidRequest, Op: "confine", Subject: path, Detail: detail}
}

// reason returns the innermost cause.
func reason(err error) string {
	if typed, ok := errors.AsType[*fs.PathError](err); ok {
		err = typed.Err
	}
	return fmt.Sprint(err)
}
