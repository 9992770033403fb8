package network

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/execbus/execbus/messages"
)

// maxAnswer bounds the text of a proxy that makes no tunnel, in bytes.
const maxAnswer = 4 << 10

// StatusError is the answer of a proxy that makes no tunnel.
type StatusError struct {
	Code   int
	Status string // the code and its name
	Text   string // the proxy's own words, in one line; empty if it has none
}

// Error has the status and the proxy's words.
func (e *StatusError) Error() string {
	if e.Text == "" {
		return e.Status
	}
	return e.Status + ": " + e.Text
}

// Connect lets an HTTP proxy make a tunnel to an authority, HOST:PORT. conn is a connection to the proxy, whose URL says whether it
// speaks TLS, and as whom it is asked. The tunnel is what Connect returns: it has the method CloseWrite, and bytes that came behind the
// answer are read from it first. After an error, and when ctx ends before the answer has come, conn is closed. A proxy that refuses is a
// *StatusError.
func Connect(ctx context.Context, conn net.Conn, proxy *url.URL, authority string) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	far := conn
	if proxy.Scheme == "https" {
		far = tls.Client(conn, &tls.Config{ServerName: proxy.Hostname()})
	}
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: authority}, Host: authority, Header: http.Header{"User-Agent": nil}}
	if user := proxy.User; user != nil {
		password, _ := user.Password()
		request.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	err := request.Write(far)
	var response *http.Response
	reader := bufio.NewReaderSize(io.LimitReader(far, maxHeader), 4<<10) // only of the answer: the tunnel goes on with far
	if err == nil {
		response, err = http.ReadResponse(reader, request)
	}
	if err == nil && response.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
		err = &StatusError{response.StatusCode, messages.Visible(response.Status), plain(response, text)}
	}
	if !stop() {
		err = fmt.Errorf("it does not answer: %w", context.Cause(ctx))
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	if early, _ := reader.Peek(reader.Buffered()); len(early) > 0 {
		return &prefixed{far, slices.Clone(early)}, nil
	}
	return far, nil
}

// plain is the text of an answer if it is meant for people: the page of a proxy in HTML is not.
func plain(response *http.Response, text []byte) string {
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/plain") {
		return ""
	}
	return messages.Visible(strings.TrimSpace(string(text)))
}

// prefixed is a connection of which some bytes were read already.
type prefixed struct {
	net.Conn
	early []byte
}

// Read implements io.Reader.
func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.early) > 0 {
		n := copy(b, p.early)
		p.early = p.early[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}

// CloseWrite tells the other side that no more bytes come.
func (p *prefixed) CloseWrite() error { return closeWrite(p.Conn) }
