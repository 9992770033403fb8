package wire

import "github.com/execbus/execbus/messages"

// Methods about processes. From process/resize on, the requests are extensions. A client may use those up to process/closeStdin without
// asking for them.
const (
	ProcessStart      = "process/start"
	ProcessRead       = "process/read"
	ProcessWrite      = "process/write"
	ProcessSignal     = "process/signal"
	ProcessTerminate  = "process/terminate"
	ProcessResize     = "process/resize"
	ProcessCloseStdin = "process/closeStdin"

	ProcessAwaitedInput = "process/awaitedInput" // these with ExtensionLooks
	ProcessListeners    = "process/listeners"

	ProcessWatchTerminal = "process/watchTerminal" // these with ExtensionCursor
	ProcessPlaceCursor   = "process/placeCursor"

	ProcessAcknowledge = "process/acknowledge" // a notification to the server, with ExtensionFlow

	ProcessOutput     = "process/output" // these are notifications to the client
	ProcessExited     = "process/exited"
	ProcessClosed     = "process/closed"
	ProcessBackground = "process/background" // these with ExtensionEnds
	ProcessDrained    = "process/drained"
	ProcessEnded      = "process/ended"
)

// Stream names where output came from.
type Stream = messages.Stream

// StartParams are the parameters of process/start. The fields from Size on are extensions.
type StartParams struct {
	ProcessID string            `json:"processId"`
	Argv      []string          `json:"argv"`
	Cwd       string            `json:"cwd"` // a file: URI or an absolute path
	EnvPolicy *EnvPolicy        `json:"envPolicy,omitempty"`
	Env       map[string]string `json:"env"` // not nil
	TTY       bool              `json:"tty"`
	PipeStdin bool              `json:"pipeStdin,omitempty"`
	Arg0      *string           `json:"arg0,omitempty"`
	Sandbox   *Sandbox          `json:"sandbox,omitempty"`
	// A server of execbus does not manage the network: it refuses a start that asks for that.
	EnforceManagedNetwork bool `json:"enforceManagedNetwork,omitempty"`
	ManagedNetwork        *any `json:"managedNetwork,omitempty"`
	NetworkProxy          *any `json:"networkProxy,omitempty"`

	Size         *Size                 `json:"size,omitempty"`
	Unattended   bool                  `json:"unattended,omitempty"` // ptyio.Launch says what this means
	Merged       bool                  `json:"merged,omitempty"`     // messages.ExecCommand says what these mean
	OnLeaderExit messages.OnLeaderExit `json:"onLeaderExit,omitempty"`
	GraceMs      *uint32               `json:"graceMs,omitempty"`
	Limits       *messages.Limits      `json:"limits,omitempty" strict:""`
	Patches      bool                  `json:"patches,omitempty"` // with ExtensionPatches: the program is the server's own for patches
}

// EnvPolicy says how the environment is made from the server's. StartParams.Env takes precedence over the result. Without a policy,
// StartParams.Env is the whole environment.
type EnvPolicy struct {
	Inherit               messages.Inherit  `json:"inherit,omitempty"`
	IgnoreDefaultExcludes bool              `json:"ignoreDefaultExcludes,omitempty"`
	Exclude               []string          `json:"exclude,omitempty"`
	Set                   map[string]string `json:"set,omitempty"`
	IncludeOnly           []string          `json:"includeOnly,omitempty"`
}

// Size is the size of a terminal.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// StartResult is the result of process/start. PID and Enforced are present with ExtensionEnds.
type StartResult struct {
	ProcessID   string                `json:"processId"`
	SandboxType SandboxType           `json:"sandboxType,omitempty"`
	PID         int                   `json:"pid,omitempty"`
	Enforced    *messages.Enforcement `json:"enforced,omitempty"`
}

// ReadParams are the parameters of process/read.
type ReadParams struct {
	ProcessID string  `json:"processId"`
	AfterSeq  *uint64 `json:"afterSeq,omitempty"`
	MaxBytes  *uint64 `json:"maxBytes,omitempty"` // the first chunk comes whole in any case
	WaitMs    *uint64 `json:"waitMs,omitempty"`
}

// ReadResult is the result of process/read.
type ReadResult struct {
	Chunks        []ReadChunk `json:"chunks"`
	NextSeq       uint64      `json:"nextSeq"`
	Exited        bool        `json:"exited"`
	ExitCode      *int        `json:"exitCode"`
	Closed        bool        `json:"closed"`
	Failure       *string     `json:"failure"`
	SandboxDenied bool        `json:"sandboxDenied"`
}

// ReadChunk is a chunk of output.
type ReadChunk struct {
	Seq    uint64 `json:"seq"`
	Stream Stream `json:"stream"`
	Chunk  Chunk  `json:"chunk"`
}

// WriteParams are the parameters of process/write. The fields from UntilTaken on are extensions.
type WriteParams struct {
	ProcessID string  `json:"processId"`
	Chunk     Chunk   `json:"chunk"`
	WriteID   *string `json:"writeId,omitempty"`
	// UntilTaken delays the answer until the process has taken the input or PatienceMs are over. The rest is then discarded.
	UntilTaken bool    `json:"untilTaken,omitempty"`
	PatienceMs *uint64 `json:"patienceMs,omitempty"`
}

// WriteStatus is the outcome of a write.
type WriteStatus string

// The statuses.
const (
	WriteAccepted       WriteStatus = "accepted"
	WriteUnknownProcess WriteStatus = "unknownProcess"
	WriteStdinClosed    WriteStatus = "stdinClosed"
	WriteStarting       WriteStatus = "starting"
)

// WriteResult is the result of process/write. Taken, Runs and Error are present with WriteParams.UntilTaken. Error says why the process did
// not take everything, and Runs in which modes of its terminal it took the rest: see ptyio.Taken.
type WriteResult struct {
	Status WriteStatus         `json:"status"`
	Taken  *int                `json:"taken,omitempty"`
	Runs   []messages.InputRun `json:"runs,omitempty"`
	Error  *messages.Error     `json:"error,omitempty"`
}

// SignalParams are the parameters of process/signal. Without Tree the signal goes to the foreground process group.
type SignalParams struct {
	ProcessID string `json:"processId"`
	Signal    string `json:"signal"` // "interrupt", or a POSIX name such as "SIGTERM"
	Tree      bool   `json:"tree,omitempty"`
}

// Interrupt is the signal that clients without extensions can send.
const Interrupt = "interrupt"

// TerminateParams are the parameters of process/terminate.
type TerminateParams struct {
	ProcessID string  `json:"processId"`
	GraceMs   *uint32 `json:"graceMs,omitempty"` // an extension
}

// TerminateResult is the result of process/terminate, which does not wait for the end.
type TerminateResult struct {
	Running bool `json:"running"` // whether the process was running
}

// ResizeParams are the parameters of process/resize.
type ResizeParams struct {
	ProcessID string `json:"processId"`
	Size      Size   `json:"size"`
}

// CloseStdinParams are the parameters of process/closeStdin. The result is a WriteResult.
type CloseStdinParams struct {
	ProcessID string `json:"processId"`
}

// WatchTerminalParams are the parameters of process/watchTerminal: whether somebody at the client's sees the screen of the process. Nobody
// does while the client is not connected. ptyio.Watched says what follows.
type WatchTerminalParams struct {
	ProcessID string `json:"processId"`
	Watched   bool   `json:"watched"`
}

// PlaceCursorParams are the parameters of process/placeCursor: where the cursor was after so many bytes of output. Of more than
// messages.MaxCursorPositions the last ones count.
type PlaceCursorParams struct {
	ProcessID string                    `json:"processId"`
	Positions []messages.CursorPosition `json:"positions"`
}

// LookParams are the parameters of process/awaitedInput and process/listeners.
type LookParams struct {
	ProcessID string `json:"processId"`
}

// AwaitedInputResult is the result of process/awaitedInput: which program of the process waits for input that it does not have; none if there
// is no Input. Everything that the program had written before has a number up to Seq. A client that has not got that far has not seen what
// the program asks.
type AwaitedInputResult struct {
	Input *messages.AwaitedInput `json:"input,omitempty"`
	Seq   uint64                 `json:"seq"`
}

// ListenersResult is the result of process/listeners: the TCP sockets on which programs of the process listen, at most MaxListeners.
type ListenersResult struct {
	Listeners []Listener `json:"listeners"`
}

// MaxListeners bounds a ListenersResult. The server leaves out more; a client refuses them.
const MaxListeners = 256

// Listener is one of them.
type Listener struct {
	Address string `json:"address"` // an IP address and a port
	PID     int    `json:"pid"`
	Program string `json:"program"`
}

// Empty is the result of a request that returns nothing.
type Empty struct{}

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

// SeqParams are the parameters of three notifications: process/drained, all output of the leader has been sent; process/closed, the
// leader has exited, and no more output will come; and process/acknowledge, the server need no longer keep the events up to Seq.
type SeqParams struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`
}

// EndedParams are the parameters of process/ended: the tree has ended, and the output is closed.
type EndedParams struct {
	ProcessID string              `json:"processId"`
	Seq       uint64              `json:"seq"`
	Tree      messages.TreeReport `json:"tree"`
}
