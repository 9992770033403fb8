package wire

import "github.com/execbus/execbus/messages"

// One process's notifications are numbered from 1: each Seq is one more than the last, except behind a gap. They are sent in
// that order.

// OutputParams are those of process/output.
type OutputParams struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`
	Stream    Stream `json:"stream"`
	Chunk     Chunk  `json:"chunk"`
}

// ExitedParams are those of process/exited. Output may follow.
type ExitedParams struct {
	ProcessID     string `json:"processId"`
	Seq           uint64 `json:"seq"`
	ExitCode      int    `json:"exitCode"` // 128 and the signal for a killed leader, -1 if it is not known
	SandboxDenied *bool  `json:"sandboxDenied,omitempty"`
	// Status is there with ExtensionEnds.
	Status *messages.ExitStatus `json:"status,omitempty"`
}

// ClosedParams are those of process/closed: the leader has exited, and no more output will come.
type ClosedParams struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`
}

// GapParams are those of process/gap: the notifications from Seq to before NextSeq were dropped, with so many bytes.
type GapParams struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`
	NextSeq   uint64 `json:"nextSeq"`
	Bytes     uint64 `json:"bytes"`
}

// EndedParams are those of process/ended, which has no number and comes last.
type EndedParams struct {
	ProcessID string             `json:"processId"`
	End       messages.EndRecord `json:"end"`
}
