package wire

import "time"

// Methods of a connection. Before "initialized" every other method is refused.
const (
	Initialize  = "initialize"
	Initialized = "initialized" // a notification; its params are ignored
)

// Extension names an addition to the protocol. A client asks for extensions when it initializes, and the server says which of them
// it has. A client that asks for none gets no message of an extension.
type Extension string

// The extensions.
const (
	// ExtensionFlow: nothing is dropped. A process waits while nearly FlowBytes of its output are not acknowledged with
	// process/acknowledge, even if there is no connection. When a session is resumed, everything that is not acknowledged is
	// sent again before anything new. A closed process is kept until its last number is acknowledged.
	ExtensionFlow Extension = "flow"
	// ExtensionEnds: the server sends all notifications that a ptyio.Child needs; see ExitedParams and the types after it.
	ExtensionEnds Extension = "ends"
	// ExtensionRaw: if the transport can carry arbitrary bytes, process/output comes as raw output instead of JSON with base64.
	ExtensionRaw Extension = "raw"
	// ExtensionPatches: the server can start a program of its own that reads and writes the files of patches; see StartParams.Patches.
	ExtensionPatches Extension = "patches"
	// ExtensionLooks: the server says what a process waits for, with process/awaitedInput and process/listeners.
	ExtensionLooks Extension = "looks"
	// ExtensionCursor: while somebody sees the screen of a process with StartParams.Unattended, what it asks about its cursor is answered by
	// them, with process/watchTerminal and process/placeCursor.
	ExtensionCursor Extension = "cursor"
)

// InitializeParams are the parameters of initialize.
type InitializeParams struct {
	ClientName      string      `json:"clientName"`
	ResumeSessionID *string     `json:"resumeSessionId,omitempty"`
	Extensions      []Extension `json:"extensions,omitempty"`
}

// InitializeResult is the result of initialize.
type InitializeResult struct {
	SessionID string `json:"sessionId"`
	// EnvironmentInfo is the result of environment/info, for clients without extensions.
	EnvironmentInfo *InfoResult `json:"environmentInfo,omitempty"`
	// Extensions are the requested extensions that the server has. A resumed session keeps the extensions with which it began.
	Extensions []Extension `json:"extensions,omitempty"`
}

// Bounds on one message.
const (
	MaxMessage = 64 << 20 // bytes; a connection that gets more is closed
	MaxValues  = 1 << 18  // JSON values
	MaxDepth   = 128      // arrays and objects inside each other
)

// Bounds on the data that both sides keep for one process.
const (
	RetainedBytes  = 1 << 20 // output, the oldest chunk is dropped first
	FlowBytes      = 4 << 20 // the same with ExtensionFlow; a flood fills a MiB before its first chunk is acknowledged
	RetainedChunks = 50_000
	RememberedIDs  = 4096 // write ids, for each process
)

// MaxChunk bounds the bytes of a chunk that the server sends.
const MaxChunk = 64 << 10

// Times.
const (
	Retention        = 30 * time.Second // of a closed process
	DetachedLifetime = 30 * time.Second // of a session without a connection
	PingInterval     = 30 * time.Second
	DialTimeout      = 10 * time.Second
	HandshakeTimeout = 10 * time.Second
	RecoveryWindow   = 25 * time.Second
	RecoveryPause    = 100 * time.Millisecond // before the first attempt to resume
)
