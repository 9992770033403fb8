package sandbox

import (
	"time"

	"github.com/execbus/execbus/sandbox/internal/confine"
)

// Impatient returns options with other times: how often a warden is looked at, and how long its start and its end may take.
func Impatient(o Options, tend, hello, end time.Duration) Options {
	short := usual
	short.tend, short.send, short.hello, short.close = tend, 10*tend, hello, end
	o.patience = &short
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
