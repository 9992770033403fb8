package client

import (
	"encoding/json"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
)

// known reports whether a process can have this stream.
func known(stream messages.Stream) bool {
	return stream == messages.StreamStdout || stream == messages.StreamStderr || stream == messages.StreamPTY
}

// heard gives a notification to its process. It ignores unknown notifications, and those of processes that are no longer followed. An
// error means that the server breaks the protocol.
func (s *spawner) heard(method string, params []byte) error {
	switch method {
	case wire.ProcessOutput:
		m, err := wire.DecodeOutput(params)
		if err != nil {
			return violation("a notification of it, %s, is malformed: %s", method, err)
		}
		if !known(m.Stream) || len(m.Chunk) == 0 {
			return violation("a chunk of %d bytes belongs to the stream %.40q", len(m.Chunk), m.Stream)
		}
		return s.put(m.ProcessID, item{stream: m.Stream, bytes: m.Chunk, message: params, seq: m.Seq, next: m.Seq + 1})
	case wire.ProcessGap:
		return hear(s, method, params, func(m *wire.GapParams) (string, item, error) {
			if m.Bytes > maxLost {
				return "", item{}, violation("it says that %d bytes were lost at once", m.Bytes)
			}
			return m.ProcessID, item{kind: gap, count: int64(m.Bytes), seq: m.Seq, next: m.NextSeq}, nil
		})
	case wire.ProcessExited:
		return hear(s, method, params, func(m *wire.ExitedParams) (string, item, error) {
			e := exit{code: m.ExitCode, known: true, status: m.Status, lost: clipped(m.Lost), denied: m.SandboxDenied != nil && *m.SandboxDenied,
				denial: m.Denial, limit: m.Limit}
			return m.ProcessID, item{kind: exited, exit: e, seq: m.Seq, next: m.Seq + 1}, nil
		})
	case wire.ProcessBackground:
		return hear(s, method, params, func(m *wire.BackgroundParams) (string, item, error) {
			return m.ProcessID, item{kind: background, count: int64(max(0, m.Count)), seq: m.Seq, next: m.Seq + 1}, nil
		})
	case wire.ProcessDrained:
		return hear(s, method, params, func(m *wire.DrainedParams) (string, item, error) {
			return m.ProcessID, item{kind: drained, seq: m.Seq, next: m.Seq + 1}, nil
		})
	case wire.ProcessClosed:
		return hear(s, method, params, func(m *wire.ClosedParams) (string, item, error) {
			return m.ProcessID, item{kind: closed, seq: m.Seq, next: m.Seq + 1}, nil
		})
	case wire.ProcessEnded:
		return hear(s, method, params, func(m *wire.EndedParams) (string, item, error) {
			return m.ProcessID, item{kind: ended, tree: m.Tree, seq: m.Seq, next: m.Seq + 1}, nil
		})
	}
	return nil
}

// maxLost bounds the bytes of one gap: sums of them must stay numbers.
const maxLost = 1 << 50

// hear reads a notification and gives it to the feed of its process.
func hear[T any](s *spawner, method string, params []byte, read func(*T) (string, item, error)) error {
	var m T
	if err := json.Unmarshal(params, &m); err != nil {
		return violation("a notification of it, %s, is malformed: %s", method, err)
	}
	id, it, err := read(&m)
	if err != nil {
		return err
	}
	return s.put(id, it)
}

// put acknowledges the end of a process that is no longer followed: the server repeats the end if the connection broke before it had the
// first acknowledgement, and keeps the process until it has one.
func (s *spawner) put(id string, it item) error {
	if c := s.find(id); c != nil {
		return c.feed.put(it)
	}
	if it.kind == ended && len(id) <= maxName {
		s.link.acknowledge(id, it.seq)
	}
	return nil
}

func (s *spawner) find(id string) *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.children[id]
}
