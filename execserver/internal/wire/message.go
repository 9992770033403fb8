package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// Kind is the kind of a message.
type Kind int

// The kinds.
const (
	Request Kind = iota
	Notification
	Response // with a result
	Failure  // a response with an error
)

// ID is the id of a request: the text of a JSON string, of a number as it came, or null. It is comparable. The zero ID is none.
type ID struct{ text string }

// NumberID makes an id of an integer.
func NumberID(n int64) ID { return ID{strconv.FormatInt(n, 10)} }

// MalformedID returns the id of the answer to a malformed message.
func MalformedID() ID { return NumberID(-1) }

// String returns the id as JSON.
func (id ID) String() string { return id.text }

func parseID(raw []byte) (ID, error) {
	if raw[0] == '"' {
		canonical, _ := json.Marshal(unquote(raw)) // so that equal ids are equal texts
		return ID{string(canonical)}, nil
	}
	if raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9' || raw[0] == 'n' {
		return ID{string(raw)}, nil // 1 and 1.0 are answered differently
	}
	return ID{}, errors.New(`"id" is neither a string nor a number nor null`)
}

// Message is one message. It shares the memory of the text that it was parsed from.
type Message struct {
	Kind   Kind
	ID     ID              // of a request and of responses
	Method string          // of a request and of a notification
	Params json.RawMessage // of the same; nil if there are none
	Result json.RawMessage // of a response
	Fault  *Fault          // of a failure
}

// Parse reads a message. Raw output becomes a process/output whose Params are for DecodeOutput only. The error says what is wrong with
// the text; its text continues a sentence about "the message".
func Parse(text []byte) (Message, error) {
	if len(text) > 0 && text[0] == rawMark {
		_, err := decodeRaw(text)
		return Message{Kind: Notification, Method: ProcessOutput, Params: text}, err
	}
	list, err := members(text)
	if err != nil {
		if begin := bytes.TrimLeft(text, " \t\r\n"); len(begin) > 0 && begin[0] == '[' {
			err = errors.New("it is a batch, or another array; send each message by itself")
		}
		return Message{}, err
	}
	found := map[string]json.RawMessage{}
	for _, m := range list {
		switch m.name {
		case "id", "method", "params", "result", "error":
			found[m.name] = m.value
		}
	}
	m := Message{Params: found["params"], Result: found["result"]}
	if raw, there := found["id"]; there {
		if m.ID, err = parseID(raw); err != nil {
			return Message{}, err
		}
	}
	switch method, named := found["method"]; {
	case named && method[0] != '"':
		return Message{}, errors.New(`"method" is not a string`)
	case named:
		m.Method, m.Kind = unquote(method), Notification
		if m.ID != (ID{}) {
			m.Kind = Request
		}
		return m, nil
	case m.ID == (ID{}):
		return Message{}, errors.New(`it has neither "method" nor "id"`)
	case m.Result != nil:
		m.Kind = Response
		return m, nil
	}
	m.Kind = Failure
	raw, there := found["error"]
	if !there {
		return Message{}, errors.New(`it has none of "method", "result" and "error"`)
	}
	m.Fault = &Fault{}
	if err := decode(raw, m.Fault, "error", false); err != nil {
		return Message{}, err
	}
	return m, nil
}

// AppendRequest appends a request; params that are nil are left out.
func AppendRequest(to []byte, id ID, method string, params any) ([]byte, error) {
	to = append(append(to, `{"id":`...), id.text...)
	return appendCall(append(to, ','), method, params)
}

// AppendNotification appends a notification; params that are nil are left out.
func AppendNotification(to []byte, method string, params any) ([]byte, error) {
	return appendCall(append(to, '{'), method, params)
}

func appendCall(to []byte, method string, params any) ([]byte, error) {
	to = append(append(append(to, `"method":"`...), method...), '"')
	if params != nil {
		text, err := json.Marshal(params)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", method, err)
		}
		to = append(append(to, `,"params":`...), text...)
	}
	return append(to, '}'), nil
}

// AppendResult appends the response to a request.
func AppendResult(to []byte, id ID, result any) ([]byte, error) {
	text, err := json.Marshal(result)
	if err != nil {
		return nil, fmt.Errorf("encode a result: %w", err)
	}
	to = append(append(append(to, `{"id":`...), id.text...), `,"result":`...)
	return append(append(to, text...), '}'), nil
}

// AppendFailure appends the response to a request that failed.
func AppendFailure(to []byte, id ID, fault *Fault) []byte {
	text, err := json.Marshal(fault)
	if err != nil { // its data is not JSON
		text, _ = json.Marshal(&Fault{Code: fault.Code, Message: fault.Message})
	}
	to = append(append(append(to, `{"id":`...), id.text...), `,"error":`...)
	return append(append(to, text...), '}')
}

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
