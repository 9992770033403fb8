package birth

import (
	"encoding/binary"
	"syscall"

	"golang.org/x/sys/unix"
)

// Secret is a random number that the filter of a thread knows, and the children of that thread show in calls that the filter allows
// to nobody else; see Showing. The zero Secret is none.
type Secret [2]uint32

// NewSecret returns one that is not zero.
func NewSecret() (Secret, error) {
	var random [8]byte
	if n, err := unix.Getrandom(random[:], 0); err != nil || n < len(random) { // crypto/rand has initialisers
		return Secret{}, syscall.EAGAIN
	}
	return Secret{binary.LittleEndian.Uint32(random[:]) | 1, binary.LittleEndian.Uint32(random[4:])}, nil
}
