package wire

import (
	"encoding/json"
	"fmt"
)

// Code classifies a Fault.
type Code int

// The codes.
const (
	InvalidRequest  Code = -32600
	UnknownMethod   Code = -32601
	InvalidParams   Code = -32602
	Internal        Code = -32603
	NotFound        Code = -32004 // a file
	SessionAttached Code = -32010
)

// Fault is the error of a response.
type Fault struct {
	Code    Code            `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error is the message.
func (f *Fault) Error() string { return f.Message }

// Refuse makes a Fault.
func Refuse(code Code, format string, args ...any) *Fault {
	return &Fault{Code: code, Message: fmt.Sprintf(format, args...)}
}
