package wire

import "time"

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
