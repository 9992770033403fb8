package execbus

import (
	"context"

	"github.com/execbus/execbus/actors"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/spool"
)

// SpoolOptions say where the output of processes is kept that memory has no room for. See "All output" in the package doc.
type SpoolOptions struct {
	// Dir is a directory of the host's user alone, as an absolute path; a missing one is made. No confined command may change what is in
	// it. Empty means that only what memory has can be read.
	Dir string
	// PerProcess bounds the file of one process, in bytes: beyond it the middle of the output is not kept. Total bounds the files of all
	// processes of the runtime; those of ended processes give way first. Zero means spool.DefaultPerProcess (1 GiB) and
	// spool.DefaultTotal (8 GiB); the least is spool.LeastPerProcess (512 KiB).
	PerProcess int64
	Total      int64

	create func() (spool.Storage, error) // tests set it
}

// spools is a spool.Store as the actors use it.
type spools struct{ *spool.Store }

func newSpools(o SpoolOptions) (spools, error) {
	store, err := spool.New(spool.Options{Dir: o.Dir, PerProcess: o.PerProcess, Total: o.Total, Create: o.create})
	return spools{store}, err
}

// New implements actors.Spools.
func (s spools) New() actors.SpoolFile { return spoolFile{s.Store.New()} }

type spoolFile struct{ *spool.File }

// Read implements actors.SpoolFile.
func (f spoolFile) Read(ctx context.Context, m messages.ReadOutput, memory actors.Memory) (actors.Found, error) {
	known := spool.Memory{Total: memory.Total, Lines: memory.Lines, Ended: memory.Ended}
	for _, e := range memory.Extents {
		known.Extents = append(known.Extents, spool.Extent(e))
	}
	found, err := f.File.Read(ctx, m, known)
	return actors.Found(found), err
}
