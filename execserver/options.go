package execserver

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// Defaults of Options.
const (
	DefaultMaxMessage   = wire.MaxMessage
	DefaultMaxRequests  = 1024
	DefaultMaxProcesses = 128
	DefaultMaxSessions  = 4096
	DefaultDetached     = wire.DetachedLifetime
)

// Options of a server. The zero value is usable.
type Options struct {
	// Confinement confines every command for which the client asks for no sandbox. A client's own sandbox is then enforced only if it
	// certainly allows no more: the same policy in the same directory, or read-only. Nil means that clients choose.
	Confinement *ptyio.Confinement
	// Roots are the directories in which the methods about files work, as absolute paths. No link leads out of them. No roots means
	// the whole file system, or no files at all if there is a Confinement. Roots do not restrict commands.
	Roots []string
	// MaxMessage bounds a message of a client, in bytes; zero means DefaultMaxMessage. A client that sends more is disconnected.
	MaxMessage int
	// MaxRequests bounds the unanswered requests of a connection; zero means DefaultMaxRequests. Further requests are refused,
	// except those that the server answers at once. So are requests beyond 128 MiB.
	MaxRequests int
	// MaxProcesses bounds the living processes of a session; zero means DefaultMaxProcesses. Further starts are refused. If the client
	// acknowledges events, twice as many processes may live or wait for the acknowledgement of their ends.
	MaxProcesses int
	// MaxSessions bounds the sessions of the server; zero means DefaultMaxSessions. Further clients are refused. A Listener closes
	// connections beyond this number and 256 more.
	MaxSessions int
	// Detached is how long a session lives without a connection; zero means DefaultDetached.
	Detached time.Duration
	// Logger logs failures; nil means no log. It must not block.
	Logger *slog.Logger

	patience patience
}

// patience is how long things may take; zero fields mean the defaults.
type patience struct {
	retention time.Duration // of a closed process: wire.Retention
	handshake time.Duration // until a connection is initialized: wire.HandshakeTimeout
	ping      time.Duration // between two pings: wire.PingInterval
	pong      time.Duration // for the answer to one, behind the output that is on its way: 30 s
	stall     time.Duration // for a client to read one message: 30 s
	probe     time.Duration // for a connection to show that it lives when another wants its session: 2 s
}

func (o Options) withDefaults() (Options, error) {
	for _, option := range []struct {
		name  string
		value *int
		zero  int
	}{
		{"MaxMessage", &o.MaxMessage, DefaultMaxMessage}, {"MaxRequests", &o.MaxRequests, DefaultMaxRequests},
		{"MaxProcesses", &o.MaxProcesses, DefaultMaxProcesses}, {"MaxSessions", &o.MaxSessions, DefaultMaxSessions},
	} {
		if *option.value < 0 {
			return o, badOption(option.name, fmt.Sprintf("%d is negative; use a positive number, or 0 for %d", *option.value, option.zero))
		}
		*option.value = cmp.Or(*option.value, option.zero)
	}
	if o.Detached < 0 {
		return o, badOption("Detached", fmt.Sprintf("%v is negative; use a positive duration, or 0 for %v", o.Detached, DefaultDetached))
	}
	o.Detached = cmp.Or(o.Detached, DefaultDetached)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	p := &o.patience
	p.retention, p.handshake = cmp.Or(p.retention, wire.Retention), cmp.Or(p.handshake, wire.HandshakeTimeout)
	p.ping, p.pong = cmp.Or(p.ping, wire.PingInterval), cmp.Or(p.pong, 30*time.Second)
	p.stall, p.probe = cmp.Or(p.stall, 30*time.Second), cmp.Or(p.probe, 2*time.Second)
	return o, nil
}

func badOption(name, detail string) error {
	return &messages.Error{Code: messages.ErrInvalidRequest, Op: "configure", Subject: "Options." + name, Detail: detail}
}
