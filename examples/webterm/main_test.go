package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// host serves a program, and ends it with the test.
func host(t *testing.T, argv ...string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, listener, argv) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("the server does not end")
		}
	})
	return listener.Addr().String()
}

func TestVimSeenByTwoAndALateOne(t *testing.T) {
	if _, err := exec.LookPath("vim"); err != nil {
		t.Skip("vim is not installed")
	}
	b := openBrowser(t)
	file := filepath.Join(t.TempDir(), "file")
	url := "http://" + host(t, "vim", "-u", "NONE", "-i", "NONE", file)
	first, second := b.open(url), b.open(url)
	first.shows(`[New File]`)
	second.shows(`[New File]`)
	first.types("ihello from the first\r")
	second.shows("hello from the first\n")
	second.types("and the second\x1b")
	want := first.shows("and the second")
	late := b.open(url)
	if late.shows("and the second"); late.run(screen) != first.run(screen) {
		t.Errorf("the late one sees\n%s\nand not\n%s", late.run(screen), want)
	}

	first.run("resize(30, 100)")
	for _, p := range []*page{first, second, late} {
		p.until(`term.rows + "x" + term.cols`, "30x100")
		p.until(screen, "hello from the first\nand the second\n"+strings.Repeat("~\n", 27)) // vim has drawn the new rows
	}
	late.picture("late")
	first.types(":wq\r")
	second.shows("[the program has ended]")
	if text, err := os.ReadFile(file); err != nil || string(text) != "hello from the first\nand the second\n" {
		t.Errorf("vim has written %q; %v", text, err)
	}
}

// 1 MiB is pasted into a program that takes keys raw, and that begins late.
func TestALargePaste(t *testing.T) {
	b := openBrowser(t)
	dir := t.TempDir()
	script := `stty raw -echo; printf ready; until [ -e go ]; do sleep 0.05; done; head -c 1048576 >paste; printf 'taken%s' ' all'`
	p := b.open("http://" + host(t, "sh", "-c", "cd '"+dir+"' && "+script))
	p.shows("ready")
	p.run(`const text = Array.from({length: 65536}, (_, i) => String(i).padStart(15, "0") + "\r").join(""); term.paste(text); text.length`)
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.shows("taken all")
	var want bytes.Buffer
	for i := range 65536 {
		fmt.Fprintf(&want, "%015d\r", i)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "paste")); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("the program got %d bytes, want %d and the same; %v", len(got), want.Len(), err)
	}
}

// A viewer that reads nothing delays neither the program nor the others, and learns later what it has missed.
func TestASlowViewer(t *testing.T) {
	address := host(t, "sh", "-c", `read go; head -c 30000000 /dev/zero | tr '\0' x; echo; echo the end; read more`)
	dial := func() *websocket.Conn {
		socket, _, err := websocket.Dial(t.Context(), "ws://"+address+"/terminal", nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = socket.CloseNow() })
		return socket
	}
	// read reads until something has come, and returns all.
	read := func(socket *websocket.Conn, until string) []byte {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var all []byte
		for !bytes.Contains(all[max(0, len(all)-9000):], []byte(until)) {
			kind, data, err := socket.Read(ctx)
			if err != nil {
				t.Fatalf("after %d bytes: %v", len(all), err)
			}
			if kind == websocket.MessageBinary {
				all = append(all, data...)
			}
		}
		return all
	}
	slow, quick := dial(), dial()
	if err := quick.Write(t.Context(), websocket.MessageBinary, []byte("go\r")); err != nil {
		t.Fatal(err)
	}
	if all := read(quick, "the end"); len(all) < 1<<20 {
		t.Errorf("the quick one got %d bytes", len(all))
	}
	all := read(slow, "the end") // now it reads
	if !bytes.Contains(all, []byte("\x1bc[")) || len(all) > 25_000_000 {
		t.Errorf("the slow one got %d bytes, and no gap", len(all))
	}
}
