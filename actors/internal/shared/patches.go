package shared

import (
	"context"
	"io"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// Patches knows the language of patches, the program that reads and writes files for them, and the journal of those that are being
// written. Package execbus hands it in. Its methods are safe for concurrent use.
type Patches interface {
	// Launch is how the program is started on a machine, but for what confines it, and its events. The error says why it cannot be. It may block.
	Launch(ctx context.Context, machine ptyio.Resolver) (ptyio.Launch, error)
	// Parse reads a patch whose relative paths begin at dir.
	Parse(request messages.ApplyPatch, dir string) (Patch, error)
	// Recover settles what processes that were killed have left on a machine. It returns a sentence for each patch that is settled now; the
	// error says which are not, or why that is not known.
	Recover(ctx context.Context, machine ptyio.Resolver, begin BeginPatchProgram) ([]string, error)
}

// BeginPatchProgram starts the program under a confinement that the journal has recorded.
type BeginPatchProgram func(context.Context, ptyio.Confinement) (io.ReadWriteCloser, error)

// Patch is one patch. One goroutine at a time uses it. Its methods talk to a running program, and block as long as that does.
type Patch interface {
	// Read finds what the patch changes, and where directories lead. Nothing in unreadable is matched or told, whether the program can read it or not.
	Read(program io.ReadWriter, dirs, unreadable []string) (PatchPlan, error)
	// Write does it, after Read, on a machine; the program may be another one than that of Read. If it fails, begin starts another one, which
	// brings the files to one side. All is done if the error is nil; the changes say what has become of each file in any case.
	Write(ctx context.Context, machine ptyio.Resolver, program io.ReadWriter, job PatchJob, begin BeginPatchProgram) ([]messages.FileChange, error)
}

// PatchPlan is what a patch does, once it is known to fit.
type PatchPlan struct {
	Files []messages.FileChange
	Dirs  map[string]string // where the directories lead
	// Located says where each path that changes stands, as the program has seen it on its machine. Write fails where that is another directory.
	Located map[string]messages.Location
	Diff    string // for a person's eyes, at most messages.MaxQuestionDiff bytes
	Summary string
	// Overwritten are sentences that name the files in whose place the patch puts others.
	Overwritten []string
}

// PatchJob is what a patch is written under.
type PatchJob struct {
	Confinement ptyio.Confinement
	Protected   []string // absolute paths that the program must not change
}
