package actors

import (
	"time"
)

// Bounds of the actors' packages, as the tests expect them.
const (
	firstProcess = 1000 // the first id of a session that counts up
	mostQueued   = 256  // starts above the limit of a session
	recordsLast  = 10 * time.Minute
	mostExtras   = 20      // of a call's time behind the leader's exit
	mostAgain    = 1 << 20 // bytes of input that another attempt gets
	mostEarly    = 256     // batches of output before the birth
	pruneGrace   = 2 * time.Second
	mostAbove    = 8 // starts above the limit of a session
)
