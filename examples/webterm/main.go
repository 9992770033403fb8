// Command webterm shows one program in any number of browsers. Each viewer reads the output at its own speed, from the
// beginning. So a late viewer sees what the others see, and a slow one delays nobody.
//
//	webterm [-listen 127.0.0.1:8080] [COMMAND [ARGUMENT]...]
//
// Anyone who can open the page can type into the program. Listen on the loopback only, or put a login in front.
package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

//go:embed index.html xterm
var files embed.FS

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "the address of the page")
	flag.Parse()
	argv := flag.Args()
	if len(argv) == 0 {
		argv = []string{"bash"}
	}
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt)
	listener, err := net.Listen("tcp", *listen)
	if err == nil {
		fmt.Printf("http://%s\n", listener.Addr())
		err = serve(ctx, listener, argv)
	}
	if err != nil {
		log.Fatal("webterm: ", err)
	}
}

// serve runs a program and its page until the program or the context ends.
func serve(ctx context.Context, listener net.Listener, argv []string) (err error) {
	rt, err := execbus.Start(execbus.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Shutdown(context.WithoutCancel(ctx))) }()
	session, err := rt.OpenSession(execbus.SessionOptions{})
	if err != nil {
		return err
	}
	process, err := session.Start(ctx, messages.ExecCommand{Argv: argv, TTY: true, Size: messages.Size{Rows: 24, Cols: 80}, Attended: true,
		Environment: &messages.EnvironmentPolicy{Set: map[string]string{"TERM": "xterm-256color"}}})
	if err != nil {
		return err
	}
	w := &webterm{process: process, size: messages.Size{Rows: 24, Cols: 80}, changed: make(chan struct{})}
	pages := http.NewServeMux()
	pages.Handle("/", http.FileServerFS(files))
	pages.HandleFunc("/terminal", w.view)
	viewing, stop := context.WithCancel(ctx)
	defer stop()
	server := &http.Server{Handler: pages, BaseContext: func(net.Listener) context.Context { return viewing }}
	go func() {
		_, _ = process.Wait(ctx)
		_ = server.Close()
	}()
	if err = server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	time.AfterFunc(time.Second, stop) // for viewers to read the rest
	w.viewers.Wait()
	return nil
}

// webterm is a program and its viewers. A browser sends keys in binary messages and its size in text messages, and it gets
// output and sizes likewise.
type webterm struct {
	process *execbus.Process
	viewers sync.WaitGroup

	mu      sync.Mutex // viewers resize in goroutines of the HTTP server
	size    messages.Size
	changed chan struct{} // closed when the size has changed
}

func (w *webterm) view(response http.ResponseWriter, request *http.Request) {
	socket, err := websocket.Accept(response, request, nil) // from our own page only
	if err != nil {
		return
	}
	defer socket.CloseNow()
	socket.SetReadLimit(64 << 10)
	w.viewers.Add(1)
	defer w.viewers.Done()
	ctx, cancel := context.WithCancel(request.Context())
	defer cancel()
	go func() {
		defer cancel()
		w.input(ctx, socket)
	}()
	output, end := make(chan []byte), make(chan error, 1)
	go func() { end <- w.output(ctx, output) }()
	var changed chan struct{}
	tell := func() error {
		w.mu.Lock()
		size := w.size
		changed = w.changed
		w.mu.Unlock()
		text, _ := json.Marshal(size)
		return socket.Write(ctx, websocket.MessageText, text)
	}
	for err = tell(); err == nil; {
		select {
		case <-changed:
			err = tell()
		case data := <-output:
			select { // a size comes before the output that was drawn for it
			case <-changed:
				err = tell()
			default:
			}
			err = errors.Join(err, socket.Write(ctx, websocket.MessageBinary, data))
		case err = <-end:
			if err == nil {
				_ = socket.Close(websocket.StatusNormalClosure, "the program has ended")
				return
			}
		}
	}
}

// output sends everything from the first byte on. A slow viewer may miss some of it. It is told how much, and a full-screen
// program is asked to draw everything again.
func (w *webterm) output(ctx context.Context, to chan<- []byte) error {
	for event, err := range w.process.Follow(ctx, 0) {
		if err != nil {
			return err
		}
		var data []byte
		switch e := event.(type) {
		case messages.OutputDelta:
			data = e.Bytes
		case messages.Gap: // the terminal is reset
			data = fmt.Appendf(nil, "\x1bc[%s]\r\n", e)
			w.resize(ctx, messages.Size{})
		}
		select {
		case to <- data:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// input passes keys on. A program that does not read holds up neither ^C nor a resize. A bell says that a paste is too long.
func (w *webterm) input(ctx context.Context, socket *websocket.Conn) {
	for {
		kind, data, err := socket.Read(ctx)
		var size messages.Size
		if err == nil && kind == websocket.MessageBinary {
			if err = w.process.Send(data); errors.Is(err, messages.ErrInputFull) {
				err = socket.Write(ctx, websocket.MessageBinary, []byte("\a"))
			}
		}
		if err != nil {
			return
		}
		if kind == websocket.MessageText && json.Unmarshal(data, &size) == nil && size.Rows > 0 && size.Cols > 0 {
			w.resize(ctx, size)
		}
	}
}

// resize gives the terminal and all viewers the size of the window that was changed last. Without a size, the terminal changes
// its size and changes it back: this makes the program draw everything again.
func (w *webterm) resize(ctx context.Context, size messages.Size) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if size == (messages.Size{}) {
		size = w.size
		_ = w.process.Resize(ctx, messages.Size{Rows: size.Rows, Cols: size.Cols + 1})
	}
	w.size = size
	close(w.changed) // before the program draws for it
	w.changed = make(chan struct{})
	_ = w.process.Resize(ctx, size)
}
