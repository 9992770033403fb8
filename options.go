package execbus

import (
	"time"

	"github.com/execbus/execbus/messages"
)

// Defaults of SessionOptions.
const (
	DefaultMaxProcesses       = 64
	DefaultWarnProcesses      = 60
	DefaultProtectedProcesses = 8
)

// SessionOptions of one conversation. The zero value runs commands in the host's working directory and environment. They
// are copied by OpenSession.
type SessionOptions struct {
	// Dir is where commands run that name no other directory; a relative one is relative to the host's.
	Dir string
	// Environment says how the environment of commands is built from the host's, which is read when the session opens.
	Environment messages.EnvironmentPolicy
	// NoLoginShell forbids login shells for scripts.
	NoLoginShell bool
	// LongestPoll is the most a poll may wait; zero means messages.DefaultMaxPoll, and less than messages.MinPoll that.
	LongestPoll time.Duration
	// OutputTokens bounds the text of every result, whatever a call asks for; zero means messages.DefaultOutputTokens.
	OutputTokens int
	// MaxProcesses is how many processes may live at once; zero means DefaultMaxProcesses. When they are reached, the least
	// recently used one that nobody waits on and that is not among the ProtectedProcesses most recently used is ended. If
	// there is none, a new command is refused.
	MaxProcesses       int
	ProtectedProcesses int // zero means DefaultProtectedProcesses, negative none
	// WarnProcesses is from how many processes on a ProcessWarning is published with each new one; zero means
	// DefaultWarnProcesses.
	WarnProcesses int
	// DeterministicIDs numbers processes from 1000 on instead of at random; for tests.
	DeterministicIDs bool
}

func (o SessionOptions) withDefaults() (SessionOptions, error) {
	for _, option := range []struct {
		name  string
		value *int
		zero  int
	}{
		{"OutputTokens", &o.OutputTokens, messages.DefaultOutputTokens},
		{"MaxProcesses", &o.MaxProcesses, DefaultMaxProcesses},
		{"WarnProcesses", &o.WarnProcesses, DefaultWarnProcesses},
	} {
		if *option.value < 0 {
			return o, badOption("SessionOptions."+option.name, *option.value)
		}
		if *option.value == 0 {
			*option.value = option.zero
		}
	}
	if o.LongestPoll < 0 {
		return o, badOption("SessionOptions.LongestPoll", o.LongestPoll)
	}
	if o.LongestPoll == 0 {
		o.LongestPoll = messages.DefaultMaxPoll
	}
	if o.ProtectedProcesses == 0 {
		o.ProtectedProcesses = DefaultProtectedProcesses
	}
	o.ProtectedProcesses = max(o.ProtectedProcesses, 0)
	var err error
	o.Dir, err = absolute(o.Dir)
	return o, err
}
