package sandbox

import "time"

// SetHelloWait changes how long a warden may take for its start, and returns what changes it back.
func SetHelloWait(d time.Duration) (restore func()) {
	before := helloWait
	helloWait = d
	return func() { helloWait = before }
}
