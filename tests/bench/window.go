package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/window"
)

func windowRows() []row {
	return []row{
		{name: "window-key", about: "a key in a page, to the picture in which a cat has echoed it; bare is gotty, to the bytes, if it is installed", open: windowKeys,
			metrics: []metric{{unit: milliseconds, judge: most, limit: 15}, {name: "p99", at: 0.99, unit: milliseconds}}},
		{name: "window-flood", about: "processor time of the host for a page with a yes that floods, beyond that of the same flood without a page", open: windowFlood,
			metrics: []metric{{unit: percent, judge: most, limit: 10}, {name: "without", of: "without", unit: percent}}},
		{name: "window-idle", about: "processor time of the host for a page with a shell that does nothing", open: windowIdle,
			metrics: []metric{{unit: percent, judge: most, limit: 0.1}}},
	}
}

// keyPause is between two keys, as people type; windowFlooding and windowIdling are how long a turn measures.
const (
	keyPause       = 50 * time.Millisecond
	windowFlooding = time.Second
	windowIdling   = 10 * time.Second
)

// viewer is a page of a process that is open in a browser without eyes.
type viewer struct {
	socket *websocket.Conn
	number int
}

// viewer opens the page of a process.
func (s *scope) viewer(ctx context.Context, w *window.Window, base string, session *execbus.Session, process messages.ProcessID) *viewer {
	jar := get(cookiejar.New(nil))
	client := &http.Client{Jar: jar}
	entered := get(client.Get(w.Link(base)))
	entered.Body.Close()
	socket, response, err := websocket.Dial(ctx, entered.Request.URL.String()+"live", &websocket.DialOptions{HTTPClient: client, HTTPHeader: http.Header{"Origin": {base}}})
	if response != nil && response.Body != nil {
		response.Body.Close()
	}
	must(err)
	socket.SetReadLimit(-1)
	v := &viewer{socket: socket}
	v.send(ctx, map[string]any{"seat": "bench", "session": session.ID(), "process": process})
	return v
}

func (v *viewer) send(ctx context.Context, message map[string]any) {
	must(v.socket.Write(ctx, websocket.MessageText, get(json.Marshal(message))))
}

// do sends an action.
func (v *viewer) do(ctx context.Context, action map[string]any) {
	v.number++
	action["n"] = v.number
	v.send(ctx, action)
}

// until reads until a message has something.
func (v *viewer) until(ctx context.Context, text string) {
	for {
		_, message, err := v.socket.Read(ctx)
		must(err)
		if bytes.Contains(message, []byte(text)) {
			return
		}
	}
}

// window opens the window of a new runtime with one process on a terminal.
func (s *scope) window(ctx context.Context, argv ...string) (w *window.Window, base string, session *execbus.Session, process *execbus.Process) {
	runtime, session := s.open(execbus.Options{}, execbus.SessionOptions{})
	w = get(window.New(runtime, window.Options{}))
	s.after(w.Close)
	base = get(w.Serve("127.0.0.1:0", nil))
	return w, base, session, get(session.Start(ctx, messages.ExecCommand{Argv: argv, TTY: true}))
}

// windowKeys presses keys, one after the other.
func windowKeys(ctx context.Context, s *scope) pair {
	echoing := []string{"sh", "-c", "stty raw -echo; printf ready; exec cat"}
	w, base, session, process := s.window(ctx, echoing...)
	v := s.viewer(ctx, w, base, session, process.ID())
	v.until(ctx, "ready")
	v.do(ctx, map[string]any{"do": "take"})
	v.until(ctx, "You have the keyboard")
	keys := s.some(20, 5)
	ours := func(ctx context.Context, took series) {
		v.do(ctx, map[string]any{"do": "type", "text": "\x1b[H\x1b[J"}) // cat clears the screen
		for i := range keys {
			time.Sleep(keyPause)
			key := string(rune('A' + i)) // nothing else in a message ends with one
			began := time.Now()
			v.do(ctx, map[string]any{"do": "type", "text": key})
			v.until(ctx, key+`"`) // a row ends with it, as JSON
			took.add("", millis(time.Since(began)))
		}
	}
	program, err := exec.LookPath("gotty")
	if err != nil {
		fmt.Fprintln(os.Stderr, "window-key: gotty is not installed, so there is nothing to compare with")
		return pair{ours: ours}
	}
	socket := s.gotty(ctx, program, echoing...)
	gets := func(text string) {
		for {
			_, message, err := socket.Read(ctx)
			must(err)
			if encoded, is := bytes.CutPrefix(message, []byte("1")); is && bytes.Contains(get(base64.StdEncoding.DecodeString(string(encoded))), []byte(text)) {
				return
			}
		}
	}
	gets("ready")
	return pair{ours: ours, bare: func(ctx context.Context, took series) {
		for i := range keys {
			time.Sleep(keyPause)
			key := string(rune('A' + i))
			began := time.Now()
			must(socket.Write(ctx, websocket.MessageText, []byte("1"+key)))
			gets(key)
			took.add("", millis(time.Since(began)))
		}
	}}
}

var listensAt = regexp.MustCompile(`http(://127\.0\.0\.1:[0-9]+)`)

// gotty starts gotty with a program, and is its first viewer.
func (s *scope) gotty(ctx context.Context, program string, argv ...string) *websocket.Conn {
	log := get(os.Create(s.directory() + "/log"))
	cmd := exec.CommandContext(ctx, program, append([]string{"--address", "127.0.0.1", "--port", "0", "--permit-write"}, argv...)...)
	cmd.Stdout, cmd.Stderr = log, log
	must(cmd.Start())
	s.after(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = log.Close()
	})
	var at []string
	for late := time.Now().Add(patience); at == nil; time.Sleep(10 * time.Millisecond) {
		text := get(os.ReadFile(log.Name()))
		if at = listensAt.FindStringSubmatch(string(text)); at == nil && time.Now().After(late) {
			must(fmt.Errorf("gotty does not listen: %s", strings.TrimSpace(string(text))))
		}
	}
	socket, _, err := websocket.Dial(ctx, "ws"+at[1]+"/ws", &websocket.DialOptions{Subprotocols: []string{"webtty"}})
	must(err)
	socket.SetReadLimit(-1)
	s.after(func() { _ = socket.CloseNow() })
	must(socket.Write(ctx, websocket.MessageText, []byte("{}")))
	return socket
}

// yesPace is how many bytes a second the flood of window-flood has: four times what a page takes in before it begins again near the end with
// each picture, so that a faster one costs a page no more.
const yesPace = 32 << 20

// writeYes prints what yes prints, at a pace of its own.
func writeYes(out io.Writer) {
	lines := bytes.Repeat([]byte("y\n"), batch/2)
	for began, written := time.Now(), 0; ; {
		for due := int(time.Since(began).Seconds() * yesPace); written < due; written += len(lines) {
			if _, err := out.Write(lines); err != nil {
				return
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// windowFlood opens and closes a page of the same flood in turn, and compares each second with it with the seconds before and after.
func windowFlood(ctx context.Context, s *scope) pair {
	w, base, session, process := s.window(ctx, writer("yes")...)
	second := func() float64 {
		before, began := cpuTime(), time.Now()
		time.Sleep(windowFlooding)
		return 100 * (cpuTime() - before).Seconds() / time.Since(began).Seconds()
	}
	return pair{ours: func(ctx context.Context, took series) {
		before := second()
		for range s.some(4, 1) {
			v := s.viewer(ctx, w, base, session, process.ID())
			v.until(ctx, `"screen"`)
			looking, leave := context.WithCancel(ctx)
			left := make(chan struct{})
			go func() {
				defer close(left)
				for {
					if _, _, err := v.socket.Read(looking); err != nil {
						return
					}
				}
			}()
			with := second()
			leave()
			<-left
			_ = v.socket.CloseNow()
			after := second()
			took.add("", with-(before+after)/2)
			took.add("without", after)
			before = after
		}
	}}
}

// windowIdle looks at a shell at its prompt, after the looks have become seldom.
func windowIdle(ctx context.Context, s *scope) pair {
	w, base, session, process := s.window(ctx, "sh", "-c", "echo ready; read x")
	v := s.viewer(ctx, w, base, session, process.ID())
	v.until(ctx, "ready")
	go func() {
		for {
			if _, _, err := v.socket.Read(ctx); err != nil {
				return
			}
		}
	}()
	time.Sleep(windowIdling)
	return pair{ours: func(ctx context.Context, took series) {
		before := cpuTime()
		time.Sleep(windowIdling)
		took.add("", 100*(cpuTime()-before).Seconds()/windowIdling.Seconds())
	}}
}
