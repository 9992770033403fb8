package wire

import "github.com/execbus/execbus/messages"

// One process's notifications are numbered from 1: each Seq is one more than the last, except behind a gap. They are sent in
// that order. Without ExtensionEnds there are process/output, process/exited, process/closed and no others, so that closed has
// the last number; with it process/background and process/drained are numbered among them, and process/ended is the last.

// OutputParams are those of process/output.
type OutputParams struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`
	Stream    Stream `json:"stream"`
	Chunk     Chunk  `json:"chunk"`
}

// ExitedParams are those of process/exited. Output may follow. The fields from Status on are there with ExtensionEnds.
type ExitedParams struct {
	ProcessID     string `json:"processId"`
	Seq           uint64 `json:"seq"`
	ExitCode      int    `json:"exitCode"` // 128 and the signal for a killed leader, -1 if it is not known
	SandboxDenied *bool  `json:"sandboxDenied,omitempty"`

	Status *messages.ExitStatus `json:"status,omitempty"`
	Lost   string               `json:"lost,omitempty"` // why Status is none; ptyio.Exited says more about this and the rest
	Denial *messages.Denial     `json:"denial,omitempty"`
	Limit  messages.Limit       `json:"limit,omitempty"`
}

// BackgroundParams are those of process/background: the leader has exited and left so many living processes.
type BackgroundParams struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`
	Count     int    `json:"count"`
}

// DrainedParams are those of process/drained: all output of the leader has been sent.
type DrainedParams struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`
}

// ClosedParams are those of process/closed: the leader has exited, and no more output will come.
type ClosedParams struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`
}

// EndedParams are those of process/ended: the tree has ended, and the output is closed.
type EndedParams struct {
	ProcessID string              `json:"processId"`
	Seq       uint64              `json:"seq"`
	Tree      messages.TreeReport `json:"tree"`
}

// GapParams are those of process/gap: the notifications from Seq to before NextSeq were dropped, with so many bytes.
type GapParams struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`
	NextSeq   uint64 `json:"nextSeq"`
	Bytes     uint64 `json:"bytes"`
}
