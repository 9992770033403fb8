package client

import (
	"encoding/json"
	"fmt"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
)

// written returns how much of a write the process took.
func written(size int, text []byte, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	var result wire.WriteResult
	if err := json.Unmarshal(text, &result); err != nil {
		return 0, failed("write", "the server's answer is malformed")
	}
	taken := size
	if result.Taken != nil {
		taken = min(max(0, *result.Taken), size)
	}
	switch {
	case result.Error != nil:
		return taken, result.Error
	case result.Status == wire.WriteAccepted:
	case result.Status == wire.WriteUnknownProcess:
		return 0, closedError("write")
	case result.Status == wire.WriteStdinClosed:
		return 0, stdinClosed("write")
	case result.Status == wire.WriteStarting:
		return 0, &messages.Error{Code: messages.ErrWrongState, Op: "write", Detail: "the process is being started; try again when it runs"}
	default:
		return 0, failed("write", "the server's answer is malformed")
	}
	if taken < size {
		return taken, &messages.Error{Code: messages.ErrInputNotTaken, Op: "write",
			Detail: fmt.Sprintf("the process took %d of %d bytes, and the rest was discarded; write the rest again", taken, size)}
	}
	return taken, nil
}

func stdinClosed(op string) error {
	return &messages.Error{Code: messages.ErrStdinClosed, Op: op,
		Detail: "the process has no input, or it was closed; start it with open input or on a terminal"}
}

func inputFull(detail string) error {
	return &messages.Error{Code: messages.ErrInputFull, Op: "write", Detail: detail}
}

var (
	errOvertaken = &messages.Error{Code: messages.ErrInputNotTaken, Op: "write",
		Detail: "a key interrupted the process before this input was sent; write it again if you still want it"}

	errNotTaken = &messages.Error{Code: messages.ErrInputNotTaken, Op: "write", Like: messages.LikeDeadlineExceeded,
		Detail: "the process has not read earlier input in time, and none of this write was sent; wait until the process reads, and write again"}

	errNotAnswered = &messages.Error{Code: messages.ErrInputNotTaken, Op: "write", Like: messages.LikeDeadlineExceeded,
		Detail: "the server has not answered in time, and it is not known how much the process took; check its output before you write again"}
)
