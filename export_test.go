package execbus

import "time"

// Impatient gives the host's code so long to answer, and to take what waits for it.
func (o Options) Impatient(answer, flush time.Duration) Options {
	o.patience = patience{answer, flush}
	return o
}
