package wire

import "github.com/execbus/execbus/messages"

// The notifications of one process are numbered from 1: each Seq is one more than the last, except after dropped output. They are sent in
// that order. Without ExtensionEnds there are only process/output, process/exited and process/closed, and process/closed has the
// last number. With ExtensionEnds there are also process/background and process/drained, and process/ended has the last number.

// OutputParams are the parameters of process/output.
type OutputParams struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`
	Stream    Stream `json:"stream"`
	Chunk     Chunk  `json:"chunk"`
}

// ExitedParams are the parameters of process/exited. Output may follow. The fields from Status on are present with ExtensionEnds.
type ExitedParams struct {
	ProcessID     string `json:"processId"`
	Seq           uint64 `json:"seq"`
	ExitCode      int    `json:"exitCode"` // 128 plus the signal for a killed leader, -1 if it is not known
	SandboxDenied *bool  `json:"sandboxDenied,omitempty"`

	Status *messages.ExitStatus `json:"status,omitempty"`
	Lost   string               `json:"lost,omitempty"` // why Status is none; ptyio.Exited says more about this and the rest
	Denial *messages.Denial     `json:"denial,omitempty"`
	Limit  messages.Limit       `json:"limit,omitempty"`
}

// BackgroundParams are the parameters of process/background: the leader has exited and left this number of living processes.
type BackgroundParams struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`
	Count     int    `json:"count"`
}

// DrainedParams are the parameters of process/drained: all output of the leader has been sent.
type DrainedParams struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`
}

// ClosedParams are the parameters of process/closed: the leader has exited, and no more output will come.
type ClosedParams struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`
}

// EndedParams are the parameters of process/ended: the tree has ended, and the output is closed.
type EndedParams struct {
	ProcessID string              `json:"processId"`
	Seq       uint64              `json:"seq"`
	Tree      messages.TreeReport `json:"tree"`
}
