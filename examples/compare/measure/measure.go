// Package measure measures programs that run commands, in cells of a table. It panics with an error if something cannot be
// measured.
package measure

import (
	"bytes"
	"context"
	"encoding/base64"
	"regexp"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"github.com/execbus/execbus/examples/compare/host"
)

// Watcher measures a program that runs a command when files change: output lost of commands and of a service, daemons left when it
// was stopped and when it was killed.
func Watcher(binary string, flags ...string) (cells []string) {
	once, service := append(flags, "--", "sh", "-c"), append(flags, "-s", "--", "sh", "-c")
	nothing := func() {}
	for i, argv := range [][]string{append(once, host.Says),
		append(service, `trap '`+host.Says+`' INT TERM; echo >>"$COMPARE/ready"; while :; do sleep 0.05; done`)} {
		h := host.Start(binary, argv...)
		for n := range host.Rounds {
			if i == 1 { // the service is there to be restarted
				h.Wait("ready", n+1, nothing)
			}
			h.Wait("begun", n+1, h.Change)
			host.Poll(2*time.Second, func() bool {
				said, lost := h.Lost(h.Text("out"))
				return said >= (n+1)*host.BytesSaid && lost == 0
			})
		}
		h.End(syscall.SIGINT)
		said, lost := h.Lost(h.Text("out"))
		cells = append(cells, host.Of(lost, said, " bytes"))
	}
	service = append(service, host.Leaves+"exec sleep 1000")
	h := host.Start(binary, service...)
	for n := range host.Rounds {
		h.Wait("begun", n+1, h.Change)
	}
	killed, stopped := 0, h.End(syscall.SIGINT)
	for range host.Rounds {
		h := host.Start(binary, service...)
		h.Wait("begun", 1, nothing)
		killed += h.End(syscall.SIGKILL)
	}
	return append(cells, host.Of(stopped, host.Rounds, ""), host.Of(killed, host.Rounds, ""))
}

// page is how a program shows a terminal in a browser.
type page struct {
	flags    []string // let it listen on a free port, print the address and accept input
	stop     syscall.Signal
	path     string // of the WebSocket
	protocol []string
	hello    string // the first message of a viewer, if any
	kind     websocket.MessageType
	input    string                      // what precedes typed keys
	output   func(message []byte) []byte // the bytes of the terminal in a message
}

// Webterm measures the example, in the cells of Watcher. It has no service.
func Webterm(binary string) []string {
	return terminal(binary, page{flags: []string{"-listen", "127.0.0.1:0"}, stop: syscall.SIGINT, path: "/terminal",
		kind: websocket.MessageBinary, output: func(message []byte) []byte { return message }})
}

// Gotty measures gotty likewise. The first message of its viewers is their login. The first byte of every later message says what
// kind of message it is; 1 is input and output. On SIGINT gotty first waits for its viewers to leave, so it is stopped by SIGTERM.
func Gotty(binary string) []string {
	return terminal(binary, page{flags: []string{"--address", "127.0.0.1", "--port", "0", "--permit-write"}, stop: syscall.SIGTERM,
		path: "/ws", protocol: []string{"webtty"}, hello: "{}", kind: websocket.MessageText, input: "1",
		output: func(message []byte) []byte {
			encoded, isOutput := bytes.CutPrefix(message, []byte("1"))
			if !isOutput {
				return nil
			}
			output, err := base64.StdEncoding.AppendDecode(nil, encoded)
			host.Check(err)
			return output
		}})
}

// terminal lets commands exit at once, and daemons be left when the program is stopped and when it is killed.
func terminal(binary string, p page) []string {
	begin := func(script string) host.Host {
		return host.Start(binary, append(p.flags[:len(p.flags):len(p.flags)], "sh", "-c", script)...)
	}
	var saidAll, lostAll, stopped, killed int
	for range host.Rounds {
		h := begin("read go; " + host.Says)
		output := read(h, p, "go\r")
		h.End(syscall.SIGKILL)
		said, lost := h.Lost(output)
		saidAll, lostAll = saidAll+said, lostAll+lost
		for sig, left := range map[syscall.Signal]*int{p.stop: &stopped, syscall.SIGKILL: &killed} {
			h := begin(host.Leaves + "read go")
			viewer := view(h, p)
			h.Wait("begun", 1, func() {})
			*left += h.End(sig)
			_ = viewer.CloseNow()
		}
	}
	return []string{host.Of(lostAll, saidAll, " bytes"), "", host.Of(stopped, host.Rounds, ""), host.Of(killed, host.Rounds, "")}
}

var listening = regexp.MustCompile(`http(://[0-9.:]+[0-9])\b`)

// view opens the terminal in the way of the program's page.
func view(h host.Host, p page) *websocket.Conn {
	var address [][]byte
	host.Poll(time.Minute, func() bool { address = listening.FindSubmatch(h.Text("out")); return address != nil })
	socket, _, err := websocket.Dial(context.Background(), "ws"+string(address[1])+p.path,
		&websocket.DialOptions{Subprotocols: p.protocol})
	host.Check(err)
	socket.SetReadLimit(-1)
	if p.hello != "" {
		host.Check(socket.Write(context.Background(), p.kind, []byte(p.hello)))
	}
	return socket
}

// read types something and reads until the program has ended.
func read(h host.Host, p page, keys string) (output []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	socket := view(h, p)
	defer socket.CloseNow()
	host.Check(socket.Write(ctx, p.kind, []byte(p.input+keys)))
	for {
		kind, data, err := socket.Read(ctx)
		if host.Check(ctx.Err()); err != nil {
			return output
		}
		if kind == p.kind {
			output = append(output, p.output(data)...)
		}
	}
}
