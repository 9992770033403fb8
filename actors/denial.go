package actors

import (
	"bytes"
	"slices"
	"syscall"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// earlyDenial is how soon after its start a command must have been stopped for a denial that only its output tells of to
// be retried without a question: a later one may have had effects.
const earlyDenial = 150 * time.Millisecond

// denialWords are what programs say when a sandbox stops them.
var denialWords = [][]byte{
	[]byte("operation not permitted"), []byte("permission denied"), []byte("read-only file system"), []byte("seccomp"),
	[]byte("sandbox"), []byte("landlock"), []byte("failed to write file"),
}

// denialOf tells whether a sandbox stopped a command: from what the spawner knows and the kernel reported, or else from the
// output. Nil says that it did not.
func denialOf(e ptyio.Exited, text []byte) *messages.Denial {
	code, known := e.Status.Code()
	switch {
	case e.Denial != nil:
		return e.Denial
	case !known || code == 0:
		return nil
	case e.Status == messages.Signaled(int(syscall.SIGSYS)):
		return &messages.Denial{Operation: "a system call"}
	}
	text = bytes.ToLower(text)
	if slices.ContainsFunc(denialWords, func(word []byte) bool { return bytes.Contains(text, word) }) {
		return &messages.Denial{FromText: true}
	}
	if code == 128+int(syscall.SIGSYS) { // as a shell reports it
		return &messages.Denial{Operation: "a system call", FromText: true}
	}
	return nil
}
