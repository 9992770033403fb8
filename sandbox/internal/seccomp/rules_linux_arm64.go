package seccomp

import "golang.org/x/sys/unix"

const architecture = unix.AUDIT_ARCH_AARCH64

// firstMissing is where the search tree ends: there are no numbers beyond.
const firstMissing = 0x40000000

// arm64 has none of the calls that newer ones have replaced.
var alwaysHere, setIDHere, metadataHere, truncationHere []Rule
