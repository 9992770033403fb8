package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// patience bounds every wait of the tests. No wait normally takes nearly as long.
const patience = 30 * time.Second

// browser is a headless Chromium, driven by its DevTools protocol.
type browser struct {
	t      *testing.T
	socket *websocket.Conn
	mu     sync.Mutex // answers come in a goroutine
	last   int
	wait   map[int]chan json.RawMessage
}

var devTools = regexp.MustCompile(`DevTools listening on (ws://\S+)`)

// openBrowser starts Chromium. The test is skipped if it is not installed or does not start.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed: the page was not tried in a browser")
	}
	profile, err := os.MkdirTemp("", "chromium")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // its helpers may still be writing
		for deadline := time.Now().Add(patience); os.RemoveAll(profile) != nil && time.Now().Before(deadline); {
			time.Sleep(20 * time.Millisecond)
		}
	})
	c := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--disable-crash-reporter", "--user-data-dir="+profile, "--remote-debugging-port=0", "about:blank")
	c.Env = append(os.Environ(), "HOME="+profile)
	log, writes, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writes.Close()
	c.Stderr = writes
	if err := c.Start(); err != nil {
		t.Skipf("chromium does not start: %v", err)
	}
	exited := make(chan struct{})
	go func() { defer close(exited); _ = c.Wait() }()
	t.Cleanup(func() { // it has been told to close
		select {
		case <-exited:
		case <-time.After(patience):
			_ = c.Process.Kill()
			<-exited
		}
	})
	address := make(chan string, 1)
	go func() {
		defer log.Close()
		defer close(address)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			if found := devTools.FindStringSubmatch(lines.Text()); found != nil {
				select {
				case address <- found[1]:
				default:
				}
			}
		}
	}()
	var url string
	select {
	case url = <-address:
	case <-time.After(patience):
	}
	if url == "" {
		_ = c.Process.Kill()
		t.Skip("chromium does not come to its DevTools")
	}
	socket, _, err := websocket.Dial(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	socket.SetReadLimit(64 << 20)
	b := &browser{t: t, socket: socket, wait: map[int]chan json.RawMessage{}}
	t.Cleanup(func() {
		_ = b.command("", "Browser.close", nil, nil)
		_ = socket.CloseNow()
	})
	go b.read()
	return b
}

func (b *browser) read() {
	for {
		_, data, err := b.socket.Read(context.Background())
		if err != nil {
			return
		}
		var answer struct{ ID int }
		if json.Unmarshal(data, &answer) != nil || answer.ID == 0 {
			continue
		}
		b.mu.Lock()
		if wait := b.wait[answer.ID]; wait != nil {
			wait <- data
		}
		b.mu.Unlock()
	}
}

// command sends a command and puts the result of its answer into result.
func (b *browser) command(session, method string, parameters map[string]any, result any) error {
	b.mu.Lock()
	b.last++
	id, answer := b.last, make(chan json.RawMessage, 1)
	b.wait[id] = answer
	b.mu.Unlock()
	request := map[string]any{"id": id, "method": method, "params": parameters}
	if session != "" {
		request["sessionId"] = session
	}
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.socket.Write(ctx, websocket.MessageText, text); err != nil {
		return err
	}
	select {
	case data := <-answer:
		var envelope struct {
			Error  *struct{ Message string }
			Result json.RawMessage
		}
		if err := json.Unmarshal(data, &envelope); err != nil {
			return err
		}
		if envelope.Error != nil {
			return fmt.Errorf("%s: %s", method, envelope.Error.Message)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(envelope.Result, result)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

// page is a viewer.
type page struct {
	b       *browser
	session string
}

func (b *browser) open(url string) *page {
	b.t.Helper()
	var target struct{ TargetID string }
	var attached struct{ SessionID string }
	if err := b.command("", "Target.createTarget", map[string]any{"url": url}, &target); err != nil {
		b.t.Fatal(err)
	}
	if err := b.command("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached); err != nil {
		b.t.Fatal(err)
	}
	p := &page{b, attached.SessionID}
	p.until(`typeof socket !== "undefined" && socket.readyState === 1 ? "open" : ""`, "open")
	return p
}

// run evaluates an expression in the page.
func (p *page) run(expression string) string {
	p.b.t.Helper()
	var answer struct {
		Result           struct{ Value any }
		ExceptionDetails *struct{ Text string }
	}
	err := p.b.command(p.session, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &answer)
	if err != nil {
		p.b.t.Fatal(err)
	}
	return fmt.Sprint(answer.Result.Value)
}

// until evaluates an expression until its value contains something.
func (p *page) until(expression, want string) string {
	p.b.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		got := p.run(expression)
		if strings.Contains(got, want) {
			return got
		}
		if time.Now().After(deadline) {
			p.b.t.Fatalf("the page does not show %q, but:\n%s", want, got)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// screen is an expression for the rows that the terminal shows.
const screen = `Array.from({length: term.rows}, (_, i) => term.buffer.active.getLine(term.buffer.active.viewportY + i)?.translateToString(true).trimEnd()).join("\n")`

// shows waits until the terminal shows something.
func (p *page) shows(want string) string { p.b.t.Helper(); return p.until(screen, want) }

// types enters text as a keyboard would.
func (p *page) types(text string) {
	p.b.t.Helper()
	quoted, _ := json.Marshal(text)
	p.run("term.input(" + string(quoted) + ")")
}

// picture saves a picture of the page if the test fails.
func (p *page) picture(name string) {
	var shot struct{ Data []byte }
	if p.b.command(p.session, "Page.captureScreenshot", nil, &shot) == nil && os.Getenv("EXECBUS_PICTURES") != "" {
		_ = os.WriteFile(filepath.Join(os.Getenv("EXECBUS_PICTURES"), name+".png"), shot.Data, 0o644)
	}
}
