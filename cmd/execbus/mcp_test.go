package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

// exec runs a script by exec_command and returns the answer. The client of a server greets it with hello first.
func (r *running) exec(id int, script string) string {
	r.t.Helper()
	arguments, err := json.Marshal(map[string]any{"cmd": script, "login": false})
	if err != nil {
		r.t.Fatal(err)
	}
	r.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"exec_command","arguments":%s}}`, id, arguments))
	return r.answer(strconv.Itoa(id))
}

// sleeper starts a command that would go on, and returns the pid that it wrote to a file.
func (r *running) sleeper() int {
	r.t.Helper()
	file := filepath.Join(r.t.TempDir(), "pid")
	r.send(hello)
	r.answer("1")
	r.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec_command","arguments":{"cmd":"trap '' TERM; echo $$ > ` + file + `; while :; do sleep 0.1; done","yield_time_ms":250}}}`)
	r.answer("2")
	return r.pidIn(file)
}

// The server ends with its input and after a signal, and a command that ignores SIGTERM ends with it.
func TestMCPEndsWithItsInputAndLeavesNothing(t *testing.T) {
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			r := launch(t, "mcp", "--no-login-shell", "--sandbox", "danger-full-access")
			pid := r.sleeper()
			if err := end(r); err != nil {
				t.Fatal(err)
			}
			if code := r.wait(); code != 0 || r.errors.Len() > 0 {
				t.Errorf("exit code %d, %s", code, r.errors.String())
			}
			if alive(pid) {
				t.Error("the command lives")
			}
		})
	}
}

// Answers show output as text, unless --view or the call says something else.
func TestMCPAnswersWithText(t *testing.T) {
	const script = `printf '\033[31m10%%\033[m\r100%%\ndone\n'`
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, `Output:\n100%\ndone\n"`},
		{[]string{"--view", "raw"}, `Output:\n\u001b[31m10%\u001b[m\r100%\ndone\n"`},
	} {
		r := launch(t, append([]string{"mcp", "--no-login-shell", "--sandbox", "danger-full-access", "--no-keep-output"}, c.args...)...)
		r.send(hello)
		r.answer("1")
		if answer := r.exec(2, script); !strings.Contains(answer, c.want) {
			t.Errorf("%q: %s", c.args, answer)
		}
		if err := r.in.Close(); err != nil {
			t.Fatal(err)
		}
		if code := r.wait(); code != 0 {
			t.Errorf("exit code %d, %s", code, r.errors.String())
		}
	}
	r := launch(t, "mcp", "--view", "html")
	if code := r.wait(); code != 2 || !strings.Contains(r.errors.String(), "--view: ") || !strings.Contains(r.errors.String(), "raw, text or screen") {
		t.Errorf("exit code %d, %s", code, r.errors.String())
	}
}

// With --detach the processes end by themselves, and the server after them.
func TestMCPLeavesItsProcessesAloneIfToldTo(t *testing.T) {
	r := launch(t, "mcp", "--no-login-shell", "--detach", "--assurance", "none")
	gate := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	r.send(hello)
	r.answer("1")
	r.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec_command","arguments":{"cmd":"read x < ` + gate + `; echo $x > ` + gate + `.done","yield_time_ms":250}}}`)
	r.answer("2")
	if err := r.in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(gate, []byte("late\n"), 0); err != nil { // waits for the command, which still reads
		t.Fatal(err)
	}
	if code := r.wait(); code != 0 {
		t.Errorf("exit code %d, %s", code, r.errors.String())
	}
	if done, err := os.ReadFile(gate + ".done"); err != nil || string(done) != "late\n" {
		t.Errorf("the command has not ended by itself: %q, %v", done, err)
	}
}

// With --with-parent the server ends with its parent, although its input is still open; otherwise it does not.
func TestMCPEndsWithItsParentIfToldTo(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, told := range []bool{true, false} {
		flag := ""
		if told {
			flag = "--with-parent"
		}
		dir := t.TempDir()
		input, output := filepath.Join(dir, "in"), filepath.Join(dir, "out")
		for _, path := range []string{input, output} {
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		in, err := os.OpenFile(input, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		out, err := os.OpenFile(output, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		launcher := exec.Command("sh", "-c", `"$1" mcp $2 < "$3" > "$4" & echo $!; read x`, "sh", self, flag, input, output)
		launcher.Env = append(os.Environ(), roleVariable+"=execbus", "HOME="+dir)
		keep, err := launcher.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		said, err := launcher.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := launcher.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(said).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		answers := bufio.NewReader(out)
		speak := func() {
			if _, err := in.WriteString(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"); err != nil {
				t.Fatal(err)
			}
			if _, err := answers.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		speak() // it serves
		_ = keep.Close()
		_ = launcher.Wait()
		if !told {
			speak() // it still does
			_ = in.Close()
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		}
		for deadline := time.Now().Add(patience); alive(pid); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the server lives")
			}
		}
		_, _ = in.Close(), out.Close()
	}
}

func TestMCPOverHTTP(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		flags  []string
		bearer string // empty: the token that the server prints
	}{{[]string{"--token-file", token}, "Bearer secret"}, {nil, ""}, {[]string{"--no-auth"}, "none"}} {
		r := launch(t, append([]string{"mcp", "--http", "127.0.0.1:0", "--assurance", "none"}, test.flags...)...)
		url := r.line()
		if test.bearer == "" {
			test.bearer = strings.TrimPrefix(r.line(), "Authorization: ")
		}
		for bearer, want := range map[string]int{test.bearer: 200, "Bearer wrong": 401} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(hello))
			if err != nil {
				t.Fatal(err)
			}
			request.Header = http.Header{"Authorization": {bearer}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
			if test.bearer == "none" {
				want = 200
			}
			if got := status(t, request); got != want {
				t.Errorf("%v with %s: %d", test.flags, bearer, got)
			}
		}
		r.stop()
	}
}

func TestATokenThatIsNoSecretIsNamed(t *testing.T) {
	dir := t.TempDir()
	for i, test := range []struct {
		token      string
		mode       os.FileMode
		says, omit string
	}{
		{"0123456789abcdef\n", 0o600, "", "execbus"},
		{"0123456789abcde\n", 0o400, "has only 15 characters and may be guessed; use 16 random ones or more\n", "chmod"},
		{"0123456789abcdef", 0o640, "other users may read the token", "guessed"},
		{"0123456789abcdef", 0o604, "chmod 600 " + dir, "guessed"},
	} {
		file := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(file, []byte(test.token), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, test.mode); err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		token, err := (&config{tokenFile: file}).token(streams{err: &text})
		if err != nil || token != strings.TrimSpace(test.token) || !strings.Contains(text.String(), test.says) || strings.Contains(text.String(), test.omit) {
			t.Errorf("%+v: %q, %v: %s", test, token, err, text.String())
		}
	}
}

func TestMCPOverHTTPHasSoManyConnections(t *testing.T) {
	r := launch(t, "mcp", "--http", "127.0.0.1:0", "--no-auth", "--assurance", "none")
	address := strings.TrimSuffix(strings.TrimPrefix(r.line(), "http://"), "/mcp")
	served := func(c net.Conn) bool {
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") // a connection that is closed says so below
		n, _ := c.Read(make([]byte, 8))
		return n > 0
	}
	var all []net.Conn
	dial := func() net.Conn {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
		return c
	}
	defer func() {
		for _, c := range all {
			_ = c.Close()
		}
	}()
	for i := range maxConnections {
		if !served(dial()) {
			t.Fatalf("connection %d is not served", i)
		}
	}
	if served(dial()) {
		t.Error("one more is served")
	}
	_ = all[0].Close()
	for deadline := time.Now().Add(patience); !served(dial()); {
		if time.Now().After(deadline) {
			t.Fatal("there is no room, although one has gone")
		}
	}
}

// Clients without a token lock nobody out, however many connections they hold.
func TestStrangersLockNobodyOutOfMCP(t *testing.T) {
	r := launch(t, "mcp", "--http", "127.0.0.1:0", "--assurance", "none")
	url, bearer := r.line(), strings.TrimPrefix(r.line(), "Authorization: ")
	for range 2 * maxConnections {
		c, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "POST /mcp HTTP/1.1\r\nHost: ") // it may be closed already
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(hello))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"Authorization": {bearer}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if got := status(t, request); got != http.StatusOK {
		t.Errorf("got %d", got)
	}
}

func TestMCPIsMisused(t *testing.T) {
	for _, test := range []struct {
		line, says string
		code       int
	}{
		{"mcp now", `"now"`, exitMisused},
		{"mcp --aproval never", "there is no flag --aproval; did you mean --approval?", exitMisused},
		{"mcp --approval sometimes", "sometimes", exitMisused},
		{"mcp --sandbox everything", "everything", exitMisused},
		{"mcp --sandbox {\"type\":\"read-only\",\"x\":1}", `unknown field "x"`, exitMisused},
		{"mcp --rules /does/not/exist", "no such file", exitMisused},
		{"mcp --no-auth", "--http", exitMisused},
		{"mcp --http 127.0.0.1:0 --detach", "--http", exitMisused},
		{"mcp --http 127.0.0.1:0 --no-auth --token-file x", "together", exitMisused},
		{"mcp --http 127.0.0.1:0 --token-file /does/not/exist", "no such file", exitFailed},
		{"mcp --http nonsense", "nonsense", exitFailed},
		{"mcp --http 0.0.0.0:0 --no-auth", "loopback", exitFailed},
		{"mcp --rules bad.rules", "bad.rules:2", exitFailed},
	} {
		out, errors, code := program(t, strings.Fields(test.line)...)
		if code != test.code || out != "" || !strings.Contains(errors, test.says) {
			t.Errorf("%s: exit code %d, %q, %s", test.line, code, out, errors)
		}
	}
}
