package messages

import (
	"maps"
	"slices"
)

// A clone shares no memory with its original. A receiver of a request keeps a clone, because the sender may go on using the
// lists, maps and pointers in the request.

// pointed returns a pointer to a copy of *p; nil stays nil.
func pointed[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// deep is pointed for a type with a Clone method.
func deep[T interface{ Clone() T }](p *T) *T {
	if p == nil {
		return nil
	}
	v := (*p).Clone()
	return &v
}

// Clone makes a deep copy.
func (c ExecCommand) Clone() ExecCommand {
	c.CommandPolicy = c.CommandPolicy.Clone()
	c.Argv, c.Login, c.Environment = slices.Clone(c.Argv), pointed(c.Login), deep(c.Environment)
	c.Grace, c.Yield = pointed(c.Grace), pointed(c.Yield)
	c.MaxOutputTokens, c.MaxOutputBytes = pointed(c.MaxOutputTokens), pointed(c.MaxOutputBytes)
	return c
}

// Clone makes a deep copy.
func (c RunCommand) Clone() RunCommand {
	c.CommandPolicy = c.CommandPolicy.Clone()
	c.Argv, c.Login, c.Environment = slices.Clone(c.Argv), pointed(c.Login), deep(c.Environment)
	c.Timeout, c.Grace = pointed(c.Timeout), pointed(c.Grace)
	return c
}

// Clone makes a deep copy.
func (p CommandPolicy) Clone() CommandPolicy {
	p.AdditionalPermissions, p.PrefixRule = deep(p.AdditionalPermissions), slices.Clone(p.PrefixRule)
	return p
}

// Clone makes a deep copy.
func (p AdditionalPermissions) Clone() AdditionalPermissions {
	return AdditionalPermissions{Network: pointed(p.Network), FileSystem: deep(p.FileSystem)}
}

// Clone makes a deep copy.
func (p FileSystemPermissions) Clone() FileSystemPermissions {
	return FileSystemPermissions{Read: slices.Clone(p.Read), Write: slices.Clone(p.Write)}
}

// Clone makes a deep copy.
func (p EnvironmentPolicy) Clone() EnvironmentPolicy {
	p.Exclude, p.Set, p.IncludeOnly = slices.Clone(p.Exclude), maps.Clone(p.Set), slices.Clone(p.IncludeOnly)
	return p
}

// Clone makes a deep copy.
func (p SandboxPolicy) Clone() SandboxPolicy {
	p.WritableRoots, p.ProtectedNames = slices.Clone(p.WritableRoots), slices.Clone(p.ProtectedNames)
	p.DeniedReads, p.Sockets = slices.Clone(p.DeniedReads), slices.Clone(p.Sockets)
	return p
}

// Clone makes a deep copy.
func (w WriteStdin) Clone() WriteStdin {
	w.Bytes, w.Yield, w.Patience = slices.Clone(w.Bytes), pointed(w.Yield), pointed(w.Patience)
	w.MaxOutputTokens, w.MaxOutputBytes = pointed(w.MaxOutputTokens), pointed(w.MaxOutputBytes)
	return w
}

// Clone makes a deep copy.
func (p Poll) Clone() Poll {
	p.Yield, p.MaxOutputTokens, p.MaxOutputBytes = pointed(p.Yield), pointed(p.MaxOutputTokens), pointed(p.MaxOutputBytes)
	return p
}

// Clone makes a deep copy.
func (t Terminate) Clone() Terminate {
	t.Grace = pointed(t.Grace)
	return t
}

// Clone makes a deep copy.
func (u UpdateEnvironment) Clone() UpdateEnvironment {
	return UpdateEnvironment{Dir: pointed(u.Dir), Environment: deep(u.Environment), Approval: pointed(u.Approval), Sandbox: deep(u.Sandbox),
		LeastAssurance: pointed(u.LeastAssurance), Limits: pointed(u.Limits)}
}

// Clone makes a deep copy.
func (r ReadOutput) Clone() ReadOutput {
	r.Offset, r.AfterSeq = pointed(r.Offset), pointed(r.AfterSeq)
	return r
}

// Clone makes a deep copy.
func (w AwaitExit) Clone() AwaitExit {
	w.Processes, w.For = slices.Clone(w.Processes), pointed(w.For)
	return w
}

// Clone makes a deep copy.
func (d Decide) Clone() Decide {
	d.Decision = d.Decision.Clone()
	return d
}

// Clone makes a deep copy.
func (d Decision) Clone() Decision {
	d.Amendment = slices.Clone(d.Amendment)
	return d
}
