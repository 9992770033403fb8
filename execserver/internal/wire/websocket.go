package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/coder/websocket"
)

// socket is a websocket where each text or binary frame is a message. Compression is off, because for output in base64 it costs more
// than it gains. The kernel's delay of small packets is off, too, as Go does it for every TCP connection.
type socket struct{ conn *websocket.Conn }

// Accept makes a Conn of a request whose sender has been authenticated.
func Accept(w http.ResponseWriter, r *http.Request, limit int) (Conn, error) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return nil, err
	}
	return newSocket(conn, limit), nil
}

// DialWebsocket connects to a URL. ctx bounds only the connecting. If the server refuses, the response has its status.
func DialWebsocket(ctx context.Context, url string, client *http.Client, header http.Header, limit int) (Conn, *http.Response, error) {
	conn, response, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: client, HTTPHeader: header})
	if err != nil {
		return nil, response, err
	}
	return newSocket(conn, limit), response, nil
}

func newSocket(conn *websocket.Conn, limit int) Conn {
	conn.SetReadLimit(int64(limit))
	return &socket{conn: conn}
}

func (s *socket) Read(ctx context.Context) ([]byte, error) {
	_, from, err := s.conn.Reader(ctx)
	var message []byte
	if err == nil {
		message, err = readMessage(from)
	}
	switch {
	case err == nil:
		return message, nil
	case errors.Is(err, websocket.ErrMessageTooBig):
		return nil, ErrTooLarge
	case websocket.CloseStatus(err) >= 0:
		return nil, io.EOF
	case ctx.Err() != nil:
		_ = s.conn.CloseNow() // the library does so soon, too
	}
	return nil, err
}

func (s *socket) Write(ctx context.Context, message []byte) error {
	kind := websocket.MessageText
	if len(message) > 0 && message[0] == rawMark {
		kind = websocket.MessageBinary
	}
	return s.conn.Write(ctx, kind, message)
}

func (s *socket) Binary() bool { return true }

func (s *socket) Ping(ctx context.Context) error { return s.conn.Ping(ctx) }

func (s *socket) Close() error { return s.conn.CloseNow() }

// pageSize is the room for a message with a full chunk.
const pageSize = MaxChunk + 8<<10

// pages are memory for large messages. A flood consists of them: a new page for each costs the reader of a flood 60 % more CPU time.
var pages = sync.Pool{New: func() any { return new([pageSize]byte) }}

// readMessage reads into a page. A small message gets memory of its size, and a large one that of the buffer that it needed.
func readMessage(from io.Reader) ([]byte, error) {
	page := pages.Get().(*[pageSize]byte)
	buffer := bytes.NewBuffer(page[:0])
	_, err := buffer.ReadFrom(from)
	message := buffer.Bytes()
	if err == nil && cap(message) == pageSize && len(message) > pageSize/4 {
		return message, nil
	}
	if cap(message) == pageSize {
		message = bytes.Clone(message)
	}
	pages.Put(page)
	return message, err
}

// Recycle gives the memory of a message that a Conn has read to later messages. It does nothing if the memory is not worth it. The
// caller may not use the message any more, and calls Recycle at most once.
func Recycle(message []byte) {
	if cap(message) == pageSize {
		pages.Put((*[pageSize]byte)(message[:pageSize]))
	}
}
