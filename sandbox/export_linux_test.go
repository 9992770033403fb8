package sandbox

import "time"

// Impatient returns options with other times: how often a warden is looked at, and how long its start and its end may take.
func Impatient(o Options, tend, hello, end time.Duration) Options {
	short := usual
	short.tend, short.send, short.hello, short.close = tend, 10*tend, hello, end
	o.patience = &short
	return o
}
