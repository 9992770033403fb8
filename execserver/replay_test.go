package execserver

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
)

// changing matches the values that differ each time.
var changing = []struct {
	pattern *regexp.Regexp
	same    string
}{
	{regexp.MustCompile(`"sessionId":"[0-9a-f-]{36}"`), `"sessionId":"<session>"`},
	{regexp.MustCompile(`"environmentInfo":\{"shell":\{[^{}]*\},[^{}]*"capabilities":\{[^{}]*\}\}`), `"environmentInfo":<machine>`},
	{regexp.MustCompile(`"pid":\d+`), `"pid":<pid>`},
	{regexp.MustCompile(`"(created|modified)AtMs":\d+`), `"${1}AtMs":<time>`},
}

// A conversation is a file. The test sends the lines that begin with "> ". The server must then send the lines that begin with "< ",
// byte for byte; answers keep their order, and so do the notifications about each process. "= disconnect" begins another connection,
// and "= disconnected" says that the server has ended this one.
func TestConversationsReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/conversations/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { replay(t, file) })
	}
}

// conversation is a conversation in progress.
type conversation struct {
	t       *testing.T
	server  *Server
	conn    wire.Conn
	session string
	root    string
	waiting []string // messages of the server that the file has not expected yet
}

func replay(t *testing.T, file string) {
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := &conversation{t: t, server: newServer(t, Options{}), root: realDir(t)}
	c.connect()
	for i, line := range strings.Split(string(content), "\n") {
		text := ""
		if len(line) > 2 {
			text = strings.ReplaceAll(line[2:], "<root>", c.root)
		}
		switch {
		case strings.HasPrefix(line, "> "):
			if err := c.conn.Write(t.Context(), []byte(strings.ReplaceAll(text, "<session>", c.session))); err != nil {
				t.Fatal(err)
			}
		case strings.HasPrefix(line, "< "):
			if got := c.next(laneOf(text)); got != text {
				t.Fatalf("line %d: the server said\n%s", i+1, got)
			}
		case line == "= disconnect":
			c.finish()
			c.connect()
		case line == "= disconnected":
			if text, err := c.conn.Read(t.Context()); err == nil {
				t.Fatalf("line %d: the server said\n%s", i+1, text)
			}
		}
	}
	c.finish()
}

func (c *conversation) connect() {
	here, there := newPair()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.server.serve(context.Background(), there, false)
	}()
	c.conn = here
	c.t.Cleanup(func() {
		here.Close()
		<-done
	})
}

func (c *conversation) finish() {
	for _, line := range c.waiting {
		c.t.Errorf("the server also said\n%s", line)
	}
	c.waiting = nil
	c.conn.Close()
}

// laneOf returns the group of messages within which a message keeps its order: the notifications about one process, or the answers.
func laneOf(text string) string {
	var m struct {
		Method string
		Params struct{ ProcessID string }
	}
	_ = json.Unmarshal([]byte(strings.NewReplacer("<pid>", "1", "<time>", "1").Replace(text)), &m)
	if m.Method == "" {
		return ""
	}
	return "process " + m.Params.ProcessID
}

// next returns the next message in a lane.
func (c *conversation) next(lane string) string {
	c.t.Helper()
	for {
		for i, text := range c.waiting {
			if laneOf(text) == lane {
				c.waiting = append(c.waiting[:i], c.waiting[i+1:]...)
				return text
			}
		}
		ctx, cancel := context.WithTimeout(c.t.Context(), bound)
		text, err := c.conn.Read(ctx)
		cancel()
		if err != nil {
			c.t.Fatalf("the server said no more: %v", err)
		}
		c.waiting = append(c.waiting, c.normal(string(text)))
	}
}

// normal replaces the values that differ each time.
func (c *conversation) normal(text string) string {
	var m struct{ Result struct{ SessionID string } }
	if json.Unmarshal([]byte(text), &m) == nil && m.Result.SessionID != "" {
		c.session = m.Result.SessionID
	}
	for _, change := range changing {
		text = change.pattern.ReplaceAllString(text, change.same)
	}
	return text
}

func TestAHugeMessageDisconnectsItsClientOnly(t *testing.T) {
	s := newServer(t, Options{MaxMessage: 1 << 10})
	other := inProcess(t, s)
	other.open("")
	for name, connect := range transports {
		if name == "in process" { // a client in this process sends no bytes that could be malformed
			continue
		}
		c := connect(t, s)
		c.open("")
		_ = c.conn.Write(t.Context(), []byte(`{"id":1,"method":"environment/status","params":"`+strings.Repeat("x", 1<<11)+`"}`))
		select {
		case <-c.over:
		case <-time.After(bound):
			t.Errorf("%s: the client is still connected", name)
		}
	}
	if text, _ := other.result(startParams("p", "echo", "hi")); text != "hi\n" {
		t.Errorf("got %q", text)
	}
}
