package execserver

import (
	"context"
	"io"

	"github.com/execbus/execbus/execserver/internal/wire"
)

// ServeStream serves one client whose messages are lines, such as a parent on standard input and output, until in ends or ctx ends.
// Then the client's processes end, too. The caller must not write to out meanwhile. ServeStream does not close the streams. If a read
// or a write still blocks when ctx ends, a goroutine that waits for it is left behind.
func (s *Server) ServeStream(ctx context.Context, in io.Reader, out io.Writer) error {
	// Standard streams cannot always be closed under a reader or a writer, so other goroutines wait for them.
	incoming, feed := io.Pipe()
	go func() {
		_, err := io.Copy(feed, in)
		feed.CloseWithError(err)
	}()
	drain, outgoing := io.Pipe()
	go func() {
		_, err := io.Copy(out, drain)
		drain.CloseWithError(err)
	}()
	return s.serve(ctx, wire.Lines(incoming, outgoing, s.options.MaxMessage), true)
}
