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
type socket struct {
	conn *websocket.Conn
	last int // bytes of the last message that was read: the next one is often as large
}

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

// keptSize bounds the first buffer for a message.
const keptSize = 128 << 10

func newSocket(conn *websocket.Conn, limit int) Conn {
	conn.SetReadLimit(int64(limit))
	return &socket{conn: conn}
}

func (s *socket) Read(ctx context.Context) ([]byte, error) {
	_, from, err := s.conn.Reader(ctx)
	var message []byte
	if err == nil {
		buffer := bytes.NewBuffer(room(s.last + bytes.MinRead))
		_, err = buffer.ReadFrom(from)
		message, s.last = buffer.Bytes(), buffer.Len()
	}
	switch {
	case err == nil:
		return fitted(message), nil
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

// pages are memory for large messages. A flood consists of them, and a new page for each would keep the garbage collector busy.
var pages = sync.Pool{New: func() any { return new([pageSize]byte) }}

// room returns memory for a message that probably has n bytes, and at most keptSize bytes of it.
func room(n int) []byte {
	if n > pageSize/2 && n <= pageSize {
		return pages.Get().(*[pageSize]byte)[:0]
	}
	return make([]byte, 0, min(n, keptSize))
}

// fitted returns a message in memory of its size, if it is small and was read into a page.
func fitted(message []byte) []byte {
	if cap(message) != pageSize || len(message) > pageSize/4 {
		return message
	}
	small := bytes.Clone(message)
	Recycle(message)
	return small
}

// Recycle gives the memory of a message that a Conn has read to later messages. It does nothing if the memory is not worth it. The
// caller may not use the message any more, and calls Recycle at most once.
func Recycle(message []byte) {
	if cap(message) == pageSize {
		pages.Put((*[pageSize]byte)(message[:pageSize]))
	}
}
