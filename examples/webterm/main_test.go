package main

import (
	"bufio"
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

// asCommand makes this test binary behave as webterm.
const asCommand = "WEBTERM_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The program writes much and exits at once, and webterm ends with it. Its viewer gets every byte all the same.
func TestTheLastOutputIsSeen(t *testing.T) {
	for range 5 {
		command := exec.CommandContext(t.Context(), os.Args[0], "-listen", "127.0.0.1:0", "sh", "-c", "stty -echo; echo; read go; seq -f %07g 1 40000")
		command.Env = append(os.Environ(), asCommand+"=1", "GORACE=atexit_sleep_ms=0")
		out, err := command.StdoutPipe()
		if err == nil {
			err = command.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		address, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		socket := dial(t, strings.TrimPrefix(strings.TrimSpace(address), "http://"))
		socket.read("\n")
		socket.types("go\r")
		if all := socket.read(""); bytes.Count(all, []byte("\n")) != 40000 || !bytes.HasSuffix(all, []byte("0040000\r\n")) {
			t.Errorf("the viewer got %d bytes, which end with %q", len(all), all[max(0, len(all)-20):])
		}
		if err := command.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// viewer is a client without a browser.
type viewer struct {
	*websocket.Conn
	t *testing.T
}

func dial(t *testing.T, address string) viewer {
	t.Helper()
	socket, _, err := websocket.Dial(t.Context(), "ws://"+address+"/terminal", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.CloseNow() })
	return viewer{socket, t}
}

func (v viewer) types(keys string) {
	v.t.Helper()
	if err := v.Write(v.t.Context(), websocket.MessageBinary, []byte(keys)); err != nil {
		v.t.Fatal(err)
	}
}

// read reads until some text has come, or until the program has ended if the text is empty. It returns everything it has read.
func (v viewer) read(until string) (all []byte) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), patience)
	defer cancel()
	for until == "" || !bytes.Contains(all[max(0, len(all)-9000):], []byte(until)) {
		kind, data, err := v.Conn.Read(ctx)
		if until == "" && websocket.CloseStatus(err) == websocket.StatusNormalClosure {
			return all
		}
		if err != nil {
			v.t.Fatalf("after %d bytes: %v", len(all), err)
		}
		if kind == websocket.MessageBinary {
			all = append(all, data...)
		}
	}
	return all
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

// 1 MiB is pasted into a program that takes keys raw, and that starts to read late.
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

// The program does not read what is pasted. The terminal still takes its new size, and ^C still ends the program.
func TestAPasteThatNobodyReadsHoldsUpNothing(t *testing.T) {
	socket := dial(t, host(t, "sh", "-c", "stty -echo; trap 'stty size' WINCH; echo up; while :; do sleep 0.01; done"))
	socket.read("up")
	paste := strings.Repeat("pasted\n", 4096)
	for range 64 { // 1.8 MiB
		socket.types(paste)
	}
	socket.read("\a")
	if err := socket.Write(t.Context(), websocket.MessageText, []byte(`{"rows":7,"cols":99}`)); err != nil {
		t.Fatal(err)
	}
	socket.read("7 99")
	socket.types("\x03")
	socket.read("")
}

// A viewer that reads nothing delays neither the program nor other viewers, and learns later how much it missed.
func TestASlowViewer(t *testing.T) {
	address := host(t, "sh", "-c", `read go; head -c 30000000 /dev/zero | tr '\0' x; echo; echo the end; read more`)
	slow, quick := dial(t, address), dial(t, address)
	quick.types("go\r")
	if all := quick.read("the end"); len(all) < 1<<20 {
		t.Errorf("the quick one got %d bytes", len(all))
	}
	all := slow.read("the end") // only now does it read
	if !bytes.Contains(all, []byte("\x1bc[")) || len(all) > 25_000_000 {
		t.Errorf("the slow one got %d bytes, and no gap", len(all))
	}
}
