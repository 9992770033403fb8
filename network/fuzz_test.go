package network

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

// far is the end of a connection that a program made: it keeps what arrives. It answers one request, or the first bytes of a tunnel.
type far struct {
	net.Conn
	address string
	mu      sync.Mutex
	got     []byte
	answer  chan struct{} // closed when there is something to answer
	ended   chan struct{}
	once    [2]sync.Once
	said    bool
}

func (f *far) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.got = append(f.got, b...)
	if bytes.Contains(f.got, []byte("\r\n\r\n")) || !strings.HasSuffix(f.address, ":80") {
		f.once[0].Do(func() { close(f.answer) })
	}
	return len(b), nil
}

func (f *far) Read(b []byte) (int, error) {
	if f.said {
		return 0, io.EOF
	}
	select {
	case <-f.answer:
		f.said = true
		return copy(b, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"), nil
	case <-f.ended:
		return 0, io.EOF
	}
}

func (f *far) Close() error                     { f.once[1].Do(func() { close(f.ended) }); return nil }
func (f *far) CloseWrite() error                { return f.Close() }
func (f *far) SetDeadline(time.Time) error      { return nil }
func (f *far) SetReadDeadline(time.Time) error  { return nil }
func (f *far) SetWriteDeadline(time.Time) error { return nil }

// FuzzProxy sends anything to the proxy, and compares what gets out with a model: only good.test's address is dialled, and what arrives is
// a request for good.test, or TLS for good.test, or comes to the port for plain TCP.
func FuzzProxy(f *testing.F) {
	for _, seed := range []string{
		"GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
		"POST http://good.test/ HTTP/1.1\r\nHost: evil.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nGET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
		"POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
		"CONNECT good.test:443 HTTP/1.1\r\nHost: good.test\r\n\r\n\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03",
		"CONNECT good.test:22 HTTP/1.1\r\nHost: good.test\r\n\r\nSSH-2.0\r\n",
		"CONNECT evil.test:443 HTTP/1.1\r\nHost: good.test\r\n\r\n",
		"GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nGET / HTTP/1.1\r\n",
		"\x05\x01\x00" + socksNamed("good.test", 443) + "\x16\x03\x01", "\x05\x02\x00\x02\x01\x041234\x01x" + socksNamed("good.test", 22),
		"\x05\x01\x00" + socksAddress(evilAddress, 443), "\x05\x01\x00" + socksAddress("::1", 22), "\x04\x01\x00\x50\x5d\xb8\xd8\x22\x00",
	} {
		f.Add([]byte(seed))
	}
	for _, name := range []string{"good.test", "evil.test"} {
		var first recorder
		clientHello(&first, name)
		f.Add(append([]byte("CONNECT good.test:443 HTTP/1.1\r\nHost: x\r\n\r\n"), first.Bytes()...))
		f.Add(append([]byte("\x05\x01\x00"+socksNamed("good.test", 443)), first.Bytes()...))
	}
	var mu sync.Mutex
	var dialled []*far
	r := newRig(f, Options{
		Snapshot: snapshotOf(f, allowed("good.test", ""), allowed("good.test:22", messages.HostTCP)),
		Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			conn := &far{address: address, answer: make(chan struct{}), ended: make(chan struct{})}
			mu.Lock()
			defer mu.Unlock()
			dialled = append(dialled, conn)
			return conn, nil
		},
	})
	f.Fuzz(func(t *testing.T, sent []byte) {
		conn, err := net.Dial("tcp", r.address)
		if err != nil {
			t.Skip(err)
		}
		conn.SetDeadline(time.Now().Add(patience))
		conn.Write(sent)
		// A request that is whole gets as far as it can before the program hangs up; nothing depends on how far that is.
		conn.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
		conn.Read(make([]byte, 1<<10))
		conn.SetReadDeadline(time.Now().Add(patience))
		conn.(*net.TCPConn).CloseWrite()
		if _, err := io.Copy(io.Discard, conn); isTimeout(err) {
			t.Errorf("the proxy hangs after %q", sent)
		}
		conn.Close()
		for late := time.Now().Add(patience); r.Stats().Connections > 0 && time.Now().Before(late); {
			time.Sleep(10 * time.Microsecond)
		}
		mu.Lock()
		outside := dialled
		dialled = nil
		mu.Unlock()
		for _, f := range outside {
			f.mu.Lock()
			if why := bypass(f.address, f.got); why != "" {
				t.Errorf("%q got to %s as %q: %s", sent, f.address, f.got, why)
			}
			f.mu.Unlock()
		}
		r.mu.Lock()
		r.records = nil
		r.mu.Unlock()
	})
}

// bypass is the model: what may arrive where. It says what must not have.
func bypass(address string, got []byte) string {
	switch address {
	case goodAddress + ":22":
		return ""
	case goodAddress + ":443":
		if len(got) == 0 {
			return ""
		}
		h, err := readHello(&recorder{}, got)
		if err != nil || !h.tls || h.name != "good.test" {
			// A name may be written in another way that means the same.
			if strings.TrimSuffix(strings.ToLower(h.name), ".") != "good.test" {
				return "it is no TLS for good.test"
			}
		}
		return ""
	case goodAddress + ":80":
		rest := bufio.NewReader(bytes.NewReader(got))
		for n := 0; ; n++ {
			request, err := http.ReadRequest(rest)
			if err != nil {
				return "" // a request that broke off
			}
			if n > 0 || request.Host != "good.test" || request.URL.Host != "" || request.Header.Get("Upgrade") != "" {
				return "it is no single request for good.test"
			}
			io.Copy(io.Discard, request.Body)
		}
	}
	return "that address is not allowed"
}
