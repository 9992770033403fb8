package ptyio

import (
	"context"

	"github.com/execbus/execbus/messages"
)

// Confinement says what children are allowed to do.
type Confinement struct {
	Policy messages.SandboxPolicy
	// Dir and TempDir are absolute paths of directories that workspace-write lets them write, besides those that the policy
	// names; TempDir is empty where there is none. No command can change them.
	Dir, TempDir string
	// Protected are absolute paths of files and directories of the host, such as its rule files, that no command may change wherever
	// they lie. The settings of execbus itself are protected anyway.
	Protected []string
	// Least is what a launch must get. The zero value is explained at messages.Assurance.
	Least messages.Assurance
	// Additional are the extra permissions of one command; nil for none. Relative paths in it are relative to AdditionalDir.
	Additional    *messages.AdditionalPermissions
	AdditionalDir string
}

// Enclosure is a confinement whose paths the spawner has looked up. If a path leads elsewhere later, launches are refused. It
// is safe for concurrent use.
type Enclosure interface {
	// Confinement is the confinement that it was made from.
	Confinement() Confinement
	// Widen makes an enclosure that allows more, for one command with this directory. Like Spawner.Enclose it looks up the
	// paths now, and may block. The new enclosure is independent of this one and must be released separately.
	Widen(ctx context.Context, more messages.AdditionalPermissions, dir string) (Enclosure, error)
	// Check looks whether its paths still lead where they did. It may block. Spawn calls it.
	Check() error
	// Release frees its resources. Later launches with it are refused. It may be called more than once.
	Release()
}

// Enclosed is an enclosure that holds nothing and looks nothing up: for a spawner that sends paths elsewhere.
func Enclosed(c Confinement) Enclosure { return enclosed{c} }

type enclosed struct{ confinement Confinement }

func (e enclosed) Confinement() Confinement { return e.confinement }

func (e enclosed) Widen(_ context.Context, more messages.AdditionalPermissions, dir string) (Enclosure, error) {
	e.confinement.Additional, e.confinement.AdditionalDir = &more, dir
	return e, nil
}

func (enclosed) Check() error { return nil }

func (enclosed) Release() {}
