package actors

import (
	"time"
)

// Bounds of the actors' packages, as the tests expect them.
const (
	mostExtras = 20      // of a call's time behind the leader's exit
	mostAgain  = 1 << 20 // bytes of input that another attempt gets
	mostEarly  = 256     // batches of output before the birth
	pruneGrace = 2 * time.Second
	mostAbove  = 8 // starts above the limit of a session
)
