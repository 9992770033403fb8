package messages

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Signal sends a signal to a process. It is answered with an *Error if that cannot be done. In JSON a signal is its name:
// "SIGTERM", or "SIG35" if it has none.
type Signal struct {
	Process ProcessID
	Signal  syscall.Signal
	// Tree sends it to the whole tree; otherwise it goes to the foreground process group.
	Tree bool
}

// signalJSON is a Signal as it crosses JSON.
type signalJSON struct {
	Process ProcessID `json:"process"`
	Signal  string    `json:"signal"`
	Tree    bool      `json:"tree,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (s Signal) MarshalJSON() ([]byte, error) {
	return json.Marshal(signalJSON{s.Process, signalName(s.Signal), s.Tree})
}

// UnmarshalJSON implements json.Unmarshaler. An unknown name is an error.
func (s *Signal) UnmarshalJSON(text []byte) error {
	var read signalJSON
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	number, err := signalNumber(read.Signal)
	if err == nil {
		*s = Signal{read.Process, number, read.Tree}
	}
	return err
}

// Name is the signal's: "SIGTERM", or "SIG35" if it has none.
func (s Signal) Name() string { return signalName(s.Signal) }

// signalName is the name of a signal on this platform.
func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return "SIG" + strconv.Itoa(int(sig))
}

// signalNumber is the signal with a name.
func signalNumber(name string) (syscall.Signal, error) {
	if sig := unix.SignalNum(name); sig != 0 {
		return sig, nil
	}
	digits, ok := strings.CutPrefix(name, "SIG")
	if number, err := strconv.Atoi(digits); ok && err == nil {
		return syscall.Signal(number), nil
	}
	return 0, fmt.Errorf("there is no signal %q; use a name like SIGTERM, or SIG with a number", name)
}
