package sandbox

import "time"

// patience is how long a host waits for its warden. Tests use shorter times.
type patience struct {
	// hello is how long the warden may take to greet, including the host's initialisers in it.
	hello time.Duration
	// close is how long a warden may take to end everything before it is killed: grace, the wait for SIGKILL to work, and
	// some time for a loaded machine.
	close time.Duration
	// send is how long a warden may leave its requests unread; then it is treated as dead, unless a fork hangs.
	send time.Duration
	// last is how long the request to end everything may wait behind a message that the warden does not read.
	last time.Duration
	// tend is the pause between two looks at a warden with leaders.
	tend time.Duration
}

var usual = patience{hello: 10 * time.Second, close: 6 * time.Second, send: 10 * time.Second, last: time.Second, tend: time.Second}

// waits returns the patience of a spawner with these options.
func (o *Options) waits() *patience {
	if o.patience != nil {
		return o.patience
	}
	return &usual
}
