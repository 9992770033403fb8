package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// MaxMessage bounds one message from a client, in bytes.
const MaxMessage = 8 << 20

// stream is a client whose messages are lines. It differs from the library's own transport in two ways. At a line that is
// not a message the library ends the conversation; here the client gets an error and the conversation goes on. The library
// handles calls concurrently; here the next line is read only when the call before it has begun.
type stream struct {
	in       *bufio.Reader
	out      io.Writer
	incoming chan jsonrpc.Message
	ended    chan struct{} // closed when in has ended
	closed   chan struct{} // closed by Close
	closing  sync.Once
	// room holds one entry for each unanswered request. The server stops reading from a client that does not read its answers.
	room chan struct{}

	// latest is the call that was read last. The reader sets it; its handler or its answer opens it. A pointer that is replaced
	// as a whole needs no owner.
	latest atomic.Pointer[latestCall]
	// writing keeps lines whole. The library writes from many goroutines; they have to wait for the client in any case.
	writing sync.Mutex
}

// maxUnanswered bounds the unanswered requests of a stream. It is more than maxCalls, so that a call beyond maxCalls can be
// answered with an error.
const maxUnanswered = 2 * maxCalls

// latestCall is a call that may not have begun yet.
type latestCall struct {
	id    jsonrpc.ID
	begun chan struct{}
	once  sync.Once
}

func (t *latestCall) open() { t.once.Do(func() { close(t.begun) }) }

func newStream(in io.Reader, out io.Writer) *stream {
	s := &stream{in: bufio.NewReaderSize(in, 64<<10), out: out, incoming: make(chan jsonrpc.Message), ended: make(chan struct{}), closed: make(chan struct{}), room: make(chan struct{}, maxUnanswered)}
	go s.receive()
	return s
}

// Connect implements the library's Transport.
func (s *stream) Connect(context.Context) (sdk.Connection, error) { return s, nil }

// SessionID implements the library's Connection: a stream is its own session.
func (s *stream) SessionID() string { return "" }

// Read returns the next message. It waits until the call that was read last has begun.
func (s *stream) Read(ctx context.Context) (jsonrpc.Message, error) {
	if t := s.latest.Load(); t != nil {
		select {
		case <-t.begun:
		case <-s.closed:
			return nil, io.EOF
		}
	}
	select {
	case message := <-s.incoming:
		return message, s.enter(message)
	case <-s.ended:
		return nil, io.EOF
	case <-s.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// enter notes a request that must be answered.
func (s *stream) enter(message jsonrpc.Message) error {
	request, is := message.(*jsonrpc.Request)
	if !is || !request.ID.IsValid() {
		return nil
	}
	select {
	case s.room <- struct{}{}:
	case <-s.closed:
		return io.EOF
	}
	if request.Method == "tools/call" {
		s.latest.Store(&latestCall{id: request.ID, begun: make(chan struct{})})
	}
	return nil
}

// begun says that the call that was read last has begun.
func (s *stream) begun() {
	if t := s.latest.Load(); t != nil {
		t.open()
	}
}

// Write writes one message. A call that has its answer counts as begun.
func (s *stream) Write(_ context.Context, message jsonrpc.Message) error {
	if answer, is := message.(*jsonrpc.Response); is {
		if t := s.latest.Load(); t != nil && t.id == answer.ID {
			t.open()
		}
		defer func() {
			select {
			case <-s.room:
			default: // the library has answered a message that is not a request
			}
		}()
	}
	line, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return err
	}
	return s.writeLine(line)
}

func (s *stream) writeLine(line []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := s.out.Write(append(line, '\n'))
	return err
}

// Close ends Read. It closes neither the input nor the output, which are the caller's.
func (s *stream) Close() error {
	s.closing.Do(func() { close(s.closed) })
	return nil
}

// receive reads lines until the input ends.
func (s *stream) receive() {
	defer close(s.ended)
	for {
		line, err := s.line()
		if err != nil && !errors.Is(err, errTooLong) {
			return
		}
		message, refusal := understand(line, err)
		if refusal != nil {
			_ = s.writeLine(refusal) // if the client reads nothing, the write ends with the client
			continue
		}
		if message == nil {
			continue
		}
		select {
		case s.incoming <- message:
		case <-s.closed:
			return
		}
	}
}

var errTooLong = errors.New("the message is too long")

// line reads one line. It skips the rest of a line that is too long. Text without a newline at the end of the input counts
// as a line.
func (s *stream) line() (line []byte, err error) {
	tooLong := false
	for {
		part, err := s.in.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(part) > MaxMessage; tooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!errors.Is(err, io.EOF) || len(line) == 0):
			return nil, err
		case tooLong:
			return nil, errTooLong
		}
		return line, nil
	}
}

// understand turns a line into a message or into an answer that refuses it. An empty line becomes neither.
func understand(line []byte, err error) (message jsonrpc.Message, refusal []byte) {
	line = bytes.TrimSpace(line)
	switch {
	case err != nil:
		return nil, refuse(nil, jsonrpc.CodeInvalidRequest, fmt.Sprintf("the message has more than %d bytes; send less at a time", MaxMessage))
	case len(line) == 0:
		return nil, nil
	case !json.Valid(line):
		return nil, refuse(nil, jsonrpc.CodeParseError, "the line is not JSON, or is nested too deeply")
	case line[0] == '[':
		return nil, refuse(nil, jsonrpc.CodeInvalidRequest, "batches are not understood; send each message as a line of its own")
	}
	message, err = jsonrpc.DecodeMessage(line)
	if err != nil {
		return nil, refuse(idOf(line), jsonrpc.CodeInvalidRequest, "the line is not a JSON-RPC 2.0 message: "+err.Error())
	}
	return message, nil
}

// idOf finds the id in a line that is not a message. It returns nil if there is none that can be answered.
func idOf(line []byte) any {
	said := struct {
		ID any `json:"id"`
	}{}
	if json.Unmarshal(line, &said) != nil {
		return nil
	}
	switch said.ID.(type) {
	case string, float64:
		return said.ID
	default:
		return nil
	}
}

// refuse makes the answer to a line that is not a message.
func refuse(id any, code int, why string) []byte {
	return compact(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": why}})
}
