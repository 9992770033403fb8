package wire

// Methods of a connection. Before "initialized" every other method is refused.
const (
	Initialize  = "initialize"
	Initialized = "initialized" // a notification; its params are ignored
)

// Extension is something that this protocol does not have by itself. A client asks for extensions when it initializes, and the
// server says which of them it has. To a client that asks for none every message is as without extensions.
type Extension string

// The extensions.
const (
	// ExtensionGaps: where output was dropped before it could be sent there is a process/gap, and no request must find out.
	ExtensionGaps Extension = "gaps"
	// ExtensionFlow: nothing is dropped. A process waits while nearly FlowBytes of its output are not acknowledged with
	// process/acknowledge, also while no connection is there. When a session is resumed, everything that is not acknowledged is
	// sent again, before anything new; a closed process is kept until its last number is acknowledged.
	ExtensionFlow Extension = "flow"
	// ExtensionEnds: there are all notifications that a ptyio.Child needs; see ExitedParams and those behind it.
	ExtensionEnds Extension = "ends"
	// ExtensionRaw: where the transport carries any bytes, process/output comes as raw output instead of JSON with base64.
	ExtensionRaw Extension = "raw"
)

// InitializeParams are those of initialize.
type InitializeParams struct {
	ClientName      string      `json:"clientName"`
	ResumeSessionID *string     `json:"resumeSessionId,omitempty"`
	Extensions      []Extension `json:"extensions,omitempty"`
}

// InitializeResult is that of initialize.
type InitializeResult struct {
	SessionID string `json:"sessionId"`
	// Extensions are those asked for that the server has. A resumed session has those that it was given first.
	Extensions []Extension `json:"extensions,omitempty"`
}
