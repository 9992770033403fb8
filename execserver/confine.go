package execserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// permissions collects what the entries of a sandbox allow. Entries that cannot be enforced exactly are refused by their names.
type permissions struct {
	projects  []string // the roots of the project
	temporary []string // what wire.SpecialTmpdir means

	everything         bool // may be read
	project, tmp, temp bool // the project, /tmp and the temporary directories may be written
	writes             []entryPath
	reads              []entryPath
	denied             []entryPath
}

// entryPath is a path with the name of the parameter that it comes from.
type entryPath struct{ field, path string }

func (e entryPath) refuse(format string, args ...any) error {
	return wire.Refuse(wire.InvalidParams, "%s: "+format, append([]any{e.field}, args...)...)
}

// maxPaths bounds the paths of one sandbox, each of which is compared with the others, and of each of its lists.
const maxPaths = 1024

// confinement converts a client's sandbox. It may block.
func (s *Server) confinement(ctx context.Context, wanted *wire.Sandbox) (c ptyio.Confinement, err error) {
	p := &permissions{}
	cwd := ""
	if wanted.Cwd != nil {
		if cwd, err = localPath("params.sandbox.cwd", *wanted.Cwd); err != nil {
			return c, err
		}
	}
	if p.projects, err = localPaths("params.sandbox.workspaceRoots", wanted.WorkspaceRoots); err != nil {
		return c, err
	}
	if len(p.projects) == 0 && cwd != "" {
		p.projects = []string{cwd}
	}
	if p.temporary, err = s.temporary(ctx, wanted); err != nil {
		return c, err
	}
	c = ptyio.Confinement{Least: wanted.Least, Policy: messages.SandboxPolicy{Sockets: wanted.Sockets}}
	if !wanted.Additional.Empty() {
		c.Additional, c.AdditionalDir = wanted.Additional, cwd
	}
	if len(p.projects) > 0 {
		c.Dir = p.projects[0]
	}
	if network := wanted.Permissions.Network; network != nil {
		if *network != wire.NetworkRestricted && *network != wire.NetworkEnabled {
			return c, wire.Refuse(wire.InvalidParams, "params.sandbox.permissions.network is %.40q; use %q or %q", *network, wire.NetworkRestricted, wire.NetworkEnabled)
		}
		c.Policy.NetworkAccess = *network == wire.NetworkEnabled
	}
	switch wanted.Permissions.Type {
	case wire.PermissionsDisabled:
		c.Policy = messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess}
	case wire.PermissionsExternal:
		c.Policy.Type = messages.SandboxExternal
	case wire.PermissionsManaged:
		err = p.managed(&c, wanted.Permissions.FileSystem)
	default:
		err = wire.Refuse(wire.InvalidParams, "params.sandbox.permissions.type is %.40q; use %q, %q or %q", wanted.Permissions.Type,
			wire.PermissionsManaged, wire.PermissionsDisabled, wire.PermissionsExternal)
	}
	if err == nil {
		err = c.Policy.Check()
	}
	if err == nil {
		err = c.Least.Check()
	}
	return c, err
}

// temporary returns the temporary directories of a sandbox.
func (s *Server) temporary(ctx context.Context, wanted *wire.Sandbox) ([]string, error) {
	if len(wanted.TemporaryDirectories) > 0 {
		return localPaths("params.sandbox.temporaryDirectories", wanted.TemporaryDirectories)
	}
	env, err := s.spawner.Resolver().Environment(ctx)
	for _, entry := range env {
		if dir, is := strings.CutPrefix(entry, "TMPDIR="); is && filepath.IsAbs(dir) {
			return []string{dir}, err
		}
	}
	return nil, err
}

// managed completes a confinement with the permissions for files.
func (p *permissions) managed(c *ptyio.Confinement, files *wire.FileSystem) error {
	const field = "params.sandbox.permissions.file_system"
	switch {
	case files == nil:
		return wire.Refuse(wire.InvalidParams, "%s is missing", field)
	case files.Type == wire.FileSystemUnrestricted && c.Policy.NetworkAccess:
		c.Policy = messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess}
		return nil
	case files.Type == wire.FileSystemUnrestricted:
		return wire.Refuse(wire.InvalidParams, "%s.type is %q, and this server cannot restrict only the network; restrict files, too", field, files.Type)
	case files.Type != wire.FileSystemRestricted:
		return wire.Refuse(wire.InvalidParams, "%s.type is %.40q; use %q or %q", field, files.Type, wire.FileSystemRestricted, wire.FileSystemUnrestricted)
	}
	for i, entry := range files.Entries {
		if err := p.add(fmt.Sprintf("%s.entries[%d]", field, i), entry); err != nil {
			return err
		}
		if len(p.reads)+len(p.writes)+len(p.denied) > maxPaths {
			return wire.Refuse(wire.InvalidParams, "%s.entries stand for more than %d paths; name directories instead of what is in them", field, maxPaths)
		}
	}
	if !p.everything {
		return wire.Refuse(wire.InvalidParams, `%s.entries: none of them allows reading the special path "root", and this server cannot restrict what is read to some directories; deny paths instead`, field)
	}
	p.roots(c)
	if err := p.protected(c); err != nil {
		return err
	}
	return p.denials(c)
}

// add notes one entry.
func (p *permissions) add(field string, entry wire.FileSystemEntry) error {
	if entry.Access == wire.AccessNone {
		entry.Access = wire.AccessDeny
	}
	at := entryPath{field: field}
	switch skip := entry.MissingPathBehavior; {
	case entry.Access != wire.AccessRead && entry.Access != wire.AccessWrite && entry.Access != wire.AccessDeny:
		return at.refuse("the access is %.40q; use read, write or deny", entry.Access)
	case skip != nil && (*skip != wire.MissingSkip || entry.Access == wire.AccessWrite):
		return at.refuse("missing_path_behavior is %.40q; use %q, and only for what may not be written", *skip, wire.MissingSkip)
	}
	switch path := entry.Path; {
	case path.Type == wire.PathPlain && path.Path != nil:
		clean, err := localPath(field+".path.path", *path.Path)
		switch {
		case err != nil:
			return err
		case strings.Contains(*path.Path+"/", "/../"): // behind a link this would be another directory
			return at.refuse("the path %.200q contains \"..\"; write it without", *path.Path)
		}
		p.note(entryPath{field, clean}, entry.Access)
		return nil
	case path.Type == wire.PathSpecial && path.Value != nil:
		return p.special(at, *path.Value, entry.Access)
	}
	return at.refuse("the path is of type %.40q, which this server cannot enforce; name paths", entry.Path.Type)
}

// special notes an entry for a place that has a name.
func (p *permissions) special(at entryPath, special wire.SpecialPath, access wire.FileSystemAccess) error {
	below := ""
	if special.Subpath != nil {
		below = *special.Subpath
	}
	switch {
	case below != "" && (special.Kind != wire.SpecialProjectRoots || !filepath.IsLocal(below) || strings.ContainsRune(below, 0) ||
		strings.Contains(below+"/", "/../")):
		return at.refuse("the subpath %.200q does not lie in the project; use a path below it", below)
	case special.Kind == wire.SpecialRoot && access == wire.AccessRead:
		p.everything = true
	case special.Kind == wire.SpecialSlashTmp && access == wire.AccessWrite:
		p.tmp = true
	case special.Kind == wire.SpecialTmpdir && access == wire.AccessWrite:
		p.temp = true
	case special.Kind == wire.SpecialProjectRoots && len(p.projects) == 0:
		return at.refuse("the sandbox has neither workspaceRoots nor a cwd; name them")
	case special.Kind == wire.SpecialProjectRoots:
		p.project = p.project || below == "" && access == wire.AccessWrite
		for _, root := range p.projects {
			p.note(entryPath{at.field, filepath.Join(root, below)}, access)
		}
	default:
		return at.refuse("this server cannot enforce %q for the special path %.40q", access, special.Kind)
	}
	return nil
}

func (p *permissions) note(at entryPath, access wire.FileSystemAccess) {
	switch access {
	case wire.AccessRead:
		p.reads = append(p.reads, at)
	case wire.AccessWrite:
		p.writes = append(p.writes, at)
	default:
		p.denied = append(p.denied, at)
	}
}

// roots sets the writable directories.
func (p *permissions) roots(c *ptyio.Confinement) {
	c.Policy.Type = messages.SandboxReadOnly
	p.temp = p.temp && len(p.temporary) > 0
	if len(p.writes) == 0 && !p.tmp && !p.temp {
		return
	}
	c.Policy.Type = messages.SandboxWorkspaceWrite
	c.Policy.ExcludeSlashTmp, c.Policy.ExcludeTmpdirEnvVar = !p.tmp, !p.temp
	if p.temp {
		c.TempDir = p.temporary[0]
	}
	if !p.project { // the directory is writable, so it is one that may be written
		roots := paths(p.writes)
		if p.temp {
			roots = append(roots, c.TempDir)
		}
		c.Dir = append(roots, "/tmp")[0]
	}
	for _, path := range paths(p.writes) {
		if path != c.Dir && !slices.Contains(c.Policy.WritableRoots, path) {
			c.Policy.WritableRoots = append(c.Policy.WritableRoots, path)
		}
	}
	if p.temp {
		c.Policy.WritableRoots = append(c.Policy.WritableRoots, p.temporary[1:]...)
	}
}

func paths(of []entryPath) (list []string) {
	for _, one := range of {
		list = append(list, one.path)
	}
	return list
}

// writable returns the directories that a confinement lets commands write.
func writable(c *ptyio.Confinement) []string {
	if c.Policy.Type != messages.SandboxWorkspaceWrite {
		return nil
	}
	list := append([]string{c.Dir}, c.Policy.WritableRoots...)
	if c.TempDir != "" {
		list = append(list, c.TempDir)
	}
	if !c.Policy.ExcludeSlashTmp {
		list = append(list, "/tmp")
	}
	return list
}

// protected sets the names that stay as they are. A path that may only be read lies at the top of a writable directory, or outside of
// all of them, where nothing can be written anyway.
func (p *permissions) protected(c *ptyio.Confinement) error {
	roots := writable(c)
	for _, read := range p.reads {
		dir, name := filepath.Split(read.path)
		switch {
		case slices.Contains(roots, read.path): // to write is to read
		case slices.Contains(roots, filepath.Clean(dir)):
			if slices.Contains(wire.AlwaysProtected, name) || slices.Contains(c.Policy.ProtectedNames, name) {
				continue
			}
			if slices.ContainsFunc(roots, func(root string) bool { return filepath.Base(root) == name }) {
				return read.refuse("%s may only be read, and another directory of that name may be written; this server cannot tell them apart", read.path)
			}
			c.Policy.ProtectedNames = append(c.Policy.ProtectedNames, name)
		case withinAny(read.path, roots):
			return read.refuse("%s may only be read and lies in a writable directory, but not at its top, where this server could protect it; leave it out, or write less", read.path)
		}
	}
	return nil
}

// withinAny reports whether a path lies in one of the directories, as it is written or by where it leads.
func withinAny(path string, dirs []string) bool {
	leads := resolved(path)
	return slices.ContainsFunc(dirs, func(dir string) bool { return within(path, dir) || within(leads, resolved(dir)) })
}

// within reports whether a path is a directory or lies in it.
func within(path, dir string) bool {
	return strings.HasPrefix(strings.TrimSuffix(path, "/")+"/", strings.TrimSuffix(dir, "/")+"/")
}

// resolved follows the links in the part of a path that exists.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(resolved(parent), filepath.Base(path))
	}
	return path
}

// denials sets the paths that must not be read.
func (p *permissions) denials(c *ptyio.Confinement) error {
	for _, denied := range p.denied {
		if denied.path == "/" {
			return denied.refuse("everything would be denied; leave it out")
		}
		for _, allowed := range slices.Concat(p.reads, p.writes) {
			if allowed.path != denied.path && withinAny(allowed.path, []string{denied.path}) {
				return allowed.refuse("it allows %s, which lies in %s, which is denied; this server cannot except paths from a denial", allowed.path, denied.path)
			}
		}
		c.Policy.DeniedReads = append(c.Policy.DeniedReads, denied.path)
	}
	return nil
}

// localPaths is localPath for a list.
func localPaths(field string, texts []string) (paths []string, err error) {
	if len(texts) > maxPaths {
		return nil, wire.Refuse(wire.InvalidParams, "%s has more than %d paths", field, maxPaths)
	}
	for i, text := range texts {
		path, err := localPath(fmt.Sprintf("%s[%d]", field, i), text)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// maxEnclosures bounds the different sandboxes of one session: each holds descriptors.
const maxEnclosures = 32

// unenforceable says that a sandbox cannot be enforced.
func unenforceable(err error) error {
	if _, cancelled := errors.AsType[*wire.Fault](err); cancelled || errors.Is(err, messages.ErrCancelled) {
		return err
	}
	fault := faultOf(err)
	fault.Code, fault.Message = wire.InvalidParams, fmt.Sprintf("the sandbox cannot be enforced: %s", err)
	return fault
}

// enclosure returns the enclosure that confines a process of the session; nil if nothing does.
func (s *session) enclosure(ctx context.Context, wanted *wire.Sandbox) (enclosure ptyio.Enclosure, err error) {
	own := s.server.enclosure
	if wanted == nil {
		return own, nil
	}
	asked, err := s.server.confinement(ctx, wanted)
	switch {
	case err != nil:
	case own != nil:
		enclosure, err = s.within(ctx, own, asked)
	case asked.Policy.Confined():
		enclosure, err = s.enclose(ctx, asked)
	}
	if err != nil {
		return nil, unenforceable(err)
	}
	return enclosure, nil
}

// within returns the enclosure for a sandbox that may not allow more than the server's own. That is certain of the same one, and of
// one that allows no writing. Other writable roots are refused: confined commands can replace directories below the server's roots
// by links, so a path does not say where it leads by the time it is used.
func (s *session) within(ctx context.Context, own ptyio.Enclosure, asked ptyio.Confinement) (enclosure ptyio.Enclosure, err error) {
	limit, least := own.Confinement(), asked.Least
	switch {
	case same(limit, asked):
		enclosure = own
		if least == "" && limit.Least != "" {
			least = messages.AssuranceIsolated // the server's own was not made by the rule for the zero value
		}
	case onlyReads(asked) && len(limit.Policy.DeniedReads) == 0 && (limit.Policy.NetworkAccess || !asked.Policy.NetworkAccess):
		if enclosure, err = s.enclose(ctx, asked); err != nil {
			return nil, err
		}
	default:
		return nil, wire.Refuse(wire.InvalidParams, "params.sandbox may allow more than this server, which confines every command as %q in %s; ask for the same, for read-only, or for no sandbox", limit.Policy, limit.Dir)
	}
	best, err := s.server.spawner.Can(ptyio.Launch{Sandbox: own})
	if err != nil {
		return nil, err
	}
	got, err := s.server.spawner.Can(ptyio.Launch{Sandbox: enclosure})
	if err == nil && !(got.Level.AtLeast(best.Level) && got.Level.AtLeast(least)) {
		err = wire.Refuse(wire.InvalidParams, "this server enforces params.sandbox only as %q; leave it out for the server's own sandbox", got.Level)
	}
	return enclosure, err
}

// same reports whether two confinements allow the same, whatever the least level is.
func same(a, b ptyio.Confinement) bool {
	a.Least, b.Least = "", ""
	one, err := json.Marshal(plain(a))
	other, wrong := json.Marshal(plain(b))
	return err == nil && wrong == nil && bytes.Equal(one, other)
}

// plain returns a confinement in the form in which it can be compared: without what has no effect.
func plain(c ptyio.Confinement) ptyio.Confinement {
	c.Dir, c.Protected = filepath.Clean(c.Dir), nil
	if c.Additional.Empty() {
		c.Additional, c.AdditionalDir = nil, ""
	}
	p := &c.Policy
	if p.ExcludeTmpdirEnvVar = p.ExcludeTmpdirEnvVar || c.TempDir == ""; p.ExcludeTmpdirEnvVar {
		c.TempDir = ""
	}
	if p.Type == "" || p.Type == messages.SandboxReadOnly {
		c.Policy = messages.SandboxPolicy{Type: messages.SandboxReadOnly, NetworkAccess: p.NetworkAccess, DeniedReads: p.DeniedReads, Sockets: p.Sockets}
		c.Dir, c.TempDir = "", ""
	}
	return c
}

// onlyReads reports whether a confinement allows no writing, and reaches no sockets.
func onlyReads(c ptyio.Confinement) bool {
	reads := c.Policy.Type == messages.SandboxReadOnly || c.Policy.Type == ""
	return reads && len(c.Policy.Sockets) == 0 && c.Additional.Empty()
}

// encloses asks the spawner for an enclosure. Without one a command would not be confined.
func (s *Server) encloses(ctx context.Context, c ptyio.Confinement) (ptyio.Enclosure, error) {
	if dir := s.output.Dir(); dir != "" {
		c.Protected = append(slices.Clip(c.Protected), dir)
	}
	enclosure, err := s.spawner.Enclose(ctx, c)
	if enclosure == nil && err == nil {
		err = &messages.Error{Code: messages.ErrRuntimeFailure, Op: "confine",
			Detail: "the spawner returned neither a sandbox nor an error", Hint: "see ptyio.Spawner.Enclose"}
	}
	return enclosure, err
}

// enclose makes an enclosure. If one was made for an equal confinement before, it returns that one.
func (s *session) enclose(ctx context.Context, asked ptyio.Confinement) (ptyio.Enclosure, error) {
	text, err := json.Marshal(plain(asked))
	if err != nil {
		return nil, err
	}
	key := string(text)
	s.mu.Lock()
	known := s.enclosures[key]
	full := known == nil && len(s.enclosures) >= maxEnclosures && !s.forgetWider()
	s.mu.Unlock()
	switch {
	case known != nil && (asked.Additional.Empty() || known.Check() == nil):
		return known, nil
	case known != nil: // it was for one command, whose paths lead elsewhere by now
		s.release(key, known)
	case full:
		return nil, wire.Refuse(wire.Internal, "the session has reached its limit of %d different sandboxes; open another session", maxEnclosures)
	}
	fresh, err := s.made(ctx, asked)
	if err != nil {
		return nil, err
	}
	return s.keep(key, fresh)
}

// made makes an enclosure. One for a single command is the session's, wider: the other paths lead where they did.
func (s *session) made(ctx context.Context, asked ptyio.Confinement) (ptyio.Enclosure, error) {
	if asked.Additional.Empty() {
		return s.server.encloses(ctx, asked)
	}
	narrow := asked
	narrow.Additional, narrow.AdditionalDir = nil, ""
	base, err := s.enclose(ctx, narrow)
	if err != nil {
		return nil, err
	}
	return base.Widen(ctx, *asked.Additional, asked.AdditionalDir)
}

// forgetWider makes room: it forgets an enclosure that was made for a single command, which gets it again if it has yet to start. It
// reports whether there was one. s.mu is held.
func (s *session) forgetWider() bool {
	for key, e := range s.enclosures {
		if !e.Confinement().Additional.Empty() {
			delete(s.enclosures, key)
			e.Release()
			return true
		}
	}
	return false
}

func (s *session) release(key string, e ptyio.Enclosure) {
	s.mu.Lock()
	was := s.enclosures[key] == e
	if was {
		delete(s.enclosures, key)
	}
	s.mu.Unlock()
	if was {
		e.Release()
	}
}

// keep keeps an enclosure until the session ends, unless an equal one has been made meanwhile.
func (s *session) keep(key string, fresh ptyio.Enclosure) (ptyio.Enclosure, error) {
	s.mu.Lock()
	known, ended := s.enclosures[key], s.ended
	if known == nil && !ended {
		s.enclosures[key] = fresh
	}
	s.mu.Unlock()
	switch {
	case ended:
		fresh.Release()
		return nil, wire.Refuse(wire.InvalidRequest, "the session has ended")
	case known != nil:
		fresh.Release()
		return known, nil
	}
	return fresh, nil
}

// enclose looks up where the paths of a sandbox lead, and answers with the enforcement that a start would get.
func enclose(ctx context.Context, c *connection, params wire.EncloseParams) (any, error) {
	s := c.session
	enclosure, err := s.enclosure(ctx, &params.Sandbox)
	if err != nil {
		return nil, err
	}
	launch := ptyio.Launch{Sandbox: enclosure}
	if params.Limits != nil {
		launch.Limits = *params.Limits
	}
	enforced, err := s.server.spawner.Can(launch)
	if typed, is := errors.AsType[*messages.Error](err); is {
		return wire.EncloseResult{Error: typed}, nil
	}
	result := wire.EncloseResult{Enforced: &enforced}
	if keeper, is := enclosure.(ptyio.Keeper); is {
		result.Keeps = &wire.Kept{}
		result.Keeps.Unwritable, result.Keeps.Unreadable = keeper.Keeps()
	}
	return result, err
}
