package measure

import (
	"bytes"
	"context"
	"encoding/base64"
	"regexp"
	"syscall"
	"time"

	"github.com/coder/websocket"
)

// Page is how a program shows a terminal in a browser.
type Page struct {
	Flags    []string // let it listen on a free port, print the address and accept input
	Stop     syscall.Signal
	path     string // of the WebSocket
	protocol []string
	hello    string // the first message of a viewer, if any
	kind     websocket.MessageType
	input    string              // what precedes typed keys
	output   func([]byte) []byte // the bytes of the terminal in a message
}

// Webterm is the page of the example.
var Webterm = Page{Flags: []string{"-listen", "127.0.0.1:0"}, Stop: syscall.SIGINT, path: "/terminal",
	kind: websocket.MessageBinary, output: func(message []byte) []byte { return message }}

// Gotty is the page of gotty. A viewer's first message is its login. The first byte of every later message says what the message
// is; 1 is input and output. On SIGINT, gotty first waits for its viewers to leave, so it is stopped by SIGTERM.
var Gotty = Page{Flags: []string{"--address", "127.0.0.1", "--port", "0", "--permit-write"}, Stop: syscall.SIGTERM, path: "/ws",
	protocol: []string{"webtty"}, hello: "{}", kind: websocket.MessageText, input: "1",
	output: func(message []byte) []byte {
		encoded, isOutput := bytes.CutPrefix(message, []byte("1"))
		if !isOutput {
			return nil
		}
		output, err := base64.StdEncoding.AppendDecode(nil, encoded)
		check(err)
		return output
	}}

// Terminal measures a program that shows a terminal in a browser: output lost of a command that exits at once, daemons left when
// it was stopped and when it was killed. It has no service.
func Terminal(binary string, page Page) []string {
	begin := func(script string) host {
		return start(binary, append(page.Flags[:len(page.Flags):len(page.Flags)], "sh", "-c", script)...)
	}
	var saidAll, lostAll, stopped, killed int
	for range rounds {
		h := begin("read go; " + says)
		output := h.read(page, "go\r")
		h.end(syscall.SIGKILL)
		said, lost := h.lost(output)
		saidAll, lostAll = saidAll+said, lostAll+lost
		for sig, left := range map[syscall.Signal]*int{page.Stop: &stopped, syscall.SIGKILL: &killed} {
			h := begin(leaves + "read go")
			viewer := h.view(page)
			h.wait("begun", 1, func() {})
			*left += h.end(sig)
			_ = viewer.CloseNow()
		}
	}
	return []string{of(lostAll, saidAll, " bytes"), "", of(stopped, rounds, ""), of(killed, rounds, "")}
}

var listening = regexp.MustCompile(`http(://[0-9.:]+[0-9])\b`)

// view opens the terminal in the way of the program's page.
func (h host) view(page Page) *websocket.Conn {
	var address [][]byte
	poll(time.Minute, func() bool { address = listening.FindSubmatch(h.text("out")); return address != nil })
	socket, _, err := websocket.Dial(context.Background(), "ws"+string(address[1])+page.path,
		&websocket.DialOptions{Subprotocols: page.protocol})
	check(err)
	socket.SetReadLimit(-1)
	if page.hello != "" {
		check(socket.Write(context.Background(), page.kind, []byte(page.hello)))
	}
	return socket
}

// read types something and reads until the program has ended.
func (h host) read(page Page, keys string) (output []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	socket := h.view(page)
	defer socket.CloseNow()
	check(socket.Write(ctx, page.kind, []byte(page.input+keys)))
	for {
		kind, data, err := socket.Read(ctx)
		if check(ctx.Err()); err != nil {
			return output
		}
		if kind == page.kind {
			output = append(output, page.output(data)...)
		}
	}
}
