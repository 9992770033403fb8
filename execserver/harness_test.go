package execserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// shared is the spawner of all tests: under the race detector every program takes a second to exit, wardens included.
var shared = sync.OnceValues(func() (ptyio.Spawner, error) { return sandbox.New(sandbox.Options{}) })

func TestMain(m *testing.M) {
	code := m.Run()
	spawner, err := shared()
	if err == nil {
		err = spawner.Close()
	}
	if err == nil {
		err = goleak.Find()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// bound is how long a test waits for something that should happen.
const bound = time.Minute

func newSpawner(t testing.TB) ptyio.Spawner {
	spawner, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return spawner
}

func newServer(t testing.TB, options Options) *Server {
	return newServerOf(t, newSpawner(t), options)
}

func newServerOf(t testing.TB, spawner ptyio.Spawner, options Options) *Server {
	s, err := NewServer(spawner, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// client speaks to a server, message by message.
type client struct {
	t    testing.TB
	conn wire.Conn
	next int64
	mu   sync.Mutex
	more *sync.Cond
	got  []wire.Message // notifications
	want map[wire.ID]chan wire.Message
	over chan struct{}
	err  error // of the last read
}

func newClient(t testing.TB, conn wire.Conn) *client {
	c := &client{t: t, conn: conn, want: map[wire.ID]chan wire.Message{}, over: make(chan struct{})}
	c.more = sync.NewCond(&c.mu)
	go c.receive()
	t.Cleanup(c.close)
	return c
}

func (c *client) close() {
	_ = c.conn.Close()
	<-c.over
}

func (c *client) receive() {
	defer close(c.over)
	for {
		text, err := c.conn.Read(context.Background())
		c.mu.Lock()
		if err != nil {
			c.err = err
			for _, waiting := range c.want {
				close(waiting)
			}
			c.more.Broadcast()
			c.mu.Unlock()
			return
		}
		message, err := wire.Parse(text)
		if err != nil {
			c.t.Errorf("the server sent %q: %v", text, err)
		}
		if message.Kind == wire.Notification {
			c.got = append(c.got, message)
			c.more.Broadcast()
		} else if waiting := c.want[message.ID]; waiting != nil {
			waiting <- message
			delete(c.want, message.ID)
		} else {
			c.t.Errorf("the server answered a request that was not sent: %s", text)
		}
		c.mu.Unlock()
	}
}

// send sends a request and returns the channel to which its answer comes.
func (c *client) send(method string, params any) <-chan wire.Message {
	c.mu.Lock()
	c.next++
	id, answer := wire.NumberID(c.next), make(chan wire.Message, 1)
	c.want[id] = answer
	c.mu.Unlock()
	text, err := wire.AppendRequest(nil, id, method, params)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.conn.Write(context.Background(), text); err != nil {
		c.t.Error(err)
	}
	return answer
}

func (c *client) tell(method string, params any) {
	text, err := wire.AppendNotification(nil, method, params)
	if err == nil {
		err = c.conn.Write(context.Background(), text)
	}
	if err != nil {
		c.t.Error(err)
	}
}

// understood decodes an answer.
func understood[R any](t testing.TB, answer <-chan wire.Message) (result R, fault *wire.Fault) {
	t.Helper()
	select {
	case message, open := <-answer:
		switch {
		case !open:
			return result, &wire.Fault{Message: "the connection has ended"}
		case message.Kind == wire.Failure:
			return result, message.Fault
		}
		if err := json.Unmarshal(message.Result, &result); err != nil {
			t.Fatalf("%s: %v", message.Result, err)
		}
	case <-time.After(bound):
		t.Fatal("there was no answer")
	}
	return result, nil
}

// ask sends a request that succeeds.
func ask[R any](t testing.TB, c *client, method string, params any) R {
	t.Helper()
	result, fault := understood[R](t, c.send(method, params))
	if fault != nil {
		t.Fatalf("%s %+v: %v", method, params, fault)
	}
	return result
}

// refused sends a request that must fail, with this code and these words in the message.
func refused(t testing.TB, c *client, method string, params any, code wire.Code, words ...string) {
	t.Helper()
	result, fault := understood[json.RawMessage](t, c.send(method, params))
	if fault == nil {
		t.Errorf("%s %+v: got %s", method, params, result)
		return
	}
	for _, word := range words {
		if !strings.Contains(fault.Message, word) {
			t.Errorf("%s: %q lacks %q", method, fault.Message, word)
		}
	}
	if fault.Code != code {
		t.Errorf("%s: got code %d, %s", method, fault.Code, fault.Message)
	}
}

// open initializes a connection.
func (c *client) open(resume string, extensions ...wire.Extension) (session string) {
	c.t.Helper()
	params := wire.InitializeParams{ClientName: "test", Extensions: extensions}
	if resume != "" {
		params.ResumeSessionID = &resume
	}
	session = ask[wire.InitializeResult](c.t, c, wire.Initialize, params).SessionID
	c.tell(wire.Initialized, nil)
	return session
}

// happened waits for a notification about a process for which the condition holds.
func (c *client) happened(process string, condition func(wire.Message) bool) wire.Message {
	c.t.Helper()
	stop := time.AfterFunc(bound, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.err = errors.New("it did not happen")
		c.more.Broadcast()
	})
	defer stop.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for seen := 0; ; {
		for ; seen < len(c.got); seen++ {
			if m := c.got[seen]; processOf(m) == process && condition(m) {
				return m
			}
		}
		if c.err != nil {
			c.t.Fatalf("%v; there was %s", c.err, c.story(process))
		}
		c.more.Wait()
	}
}

func is(method string) func(wire.Message) bool {
	return func(m wire.Message) bool { return m.Method == method }
}

type numbered struct {
	ProcessID string      `json:"processId"`
	Seq       uint64      `json:"seq"`
	Stream    wire.Stream `json:"stream"`
	Chunk     wire.Chunk  `json:"chunk"`
	ExitCode  int         `json:"exitCode"`
}

func paramsOf(m wire.Message) (n numbered) {
	if raw, err := wire.DecodeOutput(m.Params); err == nil {
		return numbered{ProcessID: raw.ProcessID, Seq: raw.Seq, Stream: raw.Stream, Chunk: raw.Chunk}
	}
	_ = json.Unmarshal(m.Params, &n)
	return n
}

func processOf(m wire.Message) string { return paramsOf(m).ProcessID }

// story lists the notifications about a process, for the messages of tests.
func (c *client) story(process string) string {
	var b strings.Builder
	for _, m := range c.got {
		if n := paramsOf(m); n.ProcessID == process {
			fmt.Fprintf(&b, "%s %d %.40q; ", m.Method, n.Seq, n.Chunk)
		}
	}
	return b.String()
}

// output returns all output of a process that has come, and the numbers of its notifications.
func (c *client) output(process string) (text string, seqs []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.got {
		if n := paramsOf(m); n.ProcessID == process {
			seqs = append(seqs, n.Seq)
			text += string(n.Chunk)
		}
	}
	return text, seqs
}

// says waits until a process has printed a text. The text may come in pieces.
func (c *client) says(process, text string) {
	c.t.Helper()
	var said strings.Builder
	c.happened(process, func(m wire.Message) bool {
		said.Write(paramsOf(m).Chunk)
		return strings.Contains(said.String(), text)
	})
}

func startParams(id string, argv ...string) wire.StartParams {
	return wire.StartParams{ProcessID: id, Argv: argv, Cwd: "/", Env: map[string]string{"PATH": os.Getenv("PATH")}}
}

func shell(id, script string) wire.StartParams { return startParams(id, "/bin/sh", "-c", script) }

// start starts a process.
func (c *client) start(params wire.StartParams) wire.StartResult {
	c.t.Helper()
	return ask[wire.StartResult](c.t, c, wire.ProcessStart, params)
}

// inProcess connects to a server in this process.
func inProcess(t testing.TB, s *Server) *client {
	here, there := newPair()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.serve(context.Background(), there, false)
	}()
	t.Cleanup(func() { <-served })
	return newClient(t, here)
}

// transports connect to a server by each transport.
var transports = map[string]func(t testing.TB, s *Server) *client{
	"websocket": func(t testing.TB, s *Server) *client {
		server := httptest.NewServer(s.Handler(""))
		t.Cleanup(server.Close)
		conn, _, err := wire.DialWebsocket(t.Context(), "ws"+strings.TrimPrefix(server.URL, "http"), server.Client(), nil, wire.MaxMessage)
		if err != nil {
			t.Fatal(err)
		}
		return newClient(t, conn)
	},
	"unix": func(t testing.TB, s *Server) *client {
		path := filepath.Join(t.TempDir(), "s")
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- s.ServeUnix(ctx, listener) }()
		t.Cleanup(func() {
			stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		return newClient(t, wire.Lines(conn, conn, wire.MaxMessage))
	},
	"stream": func(t testing.TB, s *Server) *client {
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		served := make(chan error, 1)
		go func() {
			served <- s.ServeStream(context.Background(), in, out)
			out.Close()
		}()
		t.Cleanup(func() {
			if err := <-served; err != nil && !errors.Is(err, wire.ErrTooLarge) {
				t.Error(err)
			}
		})
		return newClient(t, wire.Lines(fromServer, toServer, wire.MaxMessage))
	},
	"in process": inProcess,
}

func everyTransport(t *testing.T, options Options, test func(t *testing.T, c *client)) {
	spawner := newSpawner(t)
	for name, connect := range transports {
		t.Run(name, func(t *testing.T) { test(t, connect(t, newServerOf(t, spawner, options))) })
	}
}
