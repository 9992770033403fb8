package sandbox

import "time"

// Impatient are options with which a warden is looked at that often, and may take that long for its start and its end.
func Impatient(o Options, tend, hello, end time.Duration) Options {
	short := usual
	short.tend, short.send, short.hello, short.close = tend, 10*tend, hello, end
	o.patience = &short
	return o
}
