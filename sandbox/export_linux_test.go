package sandbox

import (
	"time"

	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/host"
)

// Impatient returns options with other times: how often a warden is looked at, and how long its start and its end may take.
func Impatient(o Options, watch, hello, end time.Duration) Options {
	o.timeouts = host.DefaultTimeouts()
	o.timeouts.Watch, o.timeouts.Execute, o.timeouts.Send, o.timeouts.Hello, o.timeouts.Close = watch, 4*watch, 10*watch, hello, end
	return o
}

// WithLandlock makes another version of Landlock known to what is told; what is enforced stays.
func WithLandlock(abi int) (restore func()) {
	real := confine.Kernel
	other := real()
	other.ABI = abi
	confine.Kernel = func() confine.Landlock { return other }
	return func() { confine.Kernel = real }
}
