package main

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// call sends a request to a server on standard input and output and returns its answer.
func (r *running) call(id, method, params string) string {
	r.t.Helper()
	r.send(`{"id":` + id + `,"method":"` + method + `","params":` + params + `}`)
	for {
		line := r.line()
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil || m.ID == nil && !strings.HasPrefix(m.Method, "process/") {
			r.t.Fatalf("%q is not the protocol", line)
		}
		if string(m.ID) == id {
			return line
		}
	}
}

// remoteSleeper starts a process that ignores SIGTERM, and returns its pid.
func (r *running) remoteSleeper() int {
	r.t.Helper()
	file := filepath.Join(r.t.TempDir(), "pid")
	r.call("1", "initialize", `{"clientName":"test"}`)
	r.send(`{"method":"initialized"}`)
	r.call("2", "process/start", `{"processId":"p","argv":["/bin/sh","-c","trap '' TERM; echo $$ > `+file+`; while :; do sleep 0.1; done"],"cwd":"/","env":{"PATH":"/usr/bin:/bin"},"tty":false}`)
	return r.pidIn(file)
}

func TestServeEndsWithItsInputOrASignalAndLeavesNothing(t *testing.T) {
	for name, end := range ends {
		r := launch(t, "serve", "--listen", "stdio")
		pid := r.remoteSleeper()
		if err := end(r); err != nil {
			t.Fatal(err)
		}
		if code := r.wait(); code != 0 || r.errors.String() != "" {
			t.Errorf("%s: exit code %d, %s", name, code, r.errors.String())
		}
		if alive(pid) {
			t.Errorf("%s: the process is left", name)
		}
	}
}

func TestServeOverTCPWantsTheToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		flags  []string
		bearer string
		status int // without the URL's own token
	}{{nil, "", 401}, {[]string{"--listen", "ws://127.0.0.1:0", "--token-file", file}, "secret", 401}, {[]string{"--no-auth"}, "", 426}} {
		r := launch(t, append([]string{"serve"}, test.flags...)...)
		whole := strings.Replace(r.line(), "ws://", "http://", 1)
		base, query, _ := strings.Cut(whole, "/?")
		if strings.HasPrefix(query, "token=") != (len(test.flags) == 0) || !strings.HasPrefix(base, "http://127.0.0.1:") || strings.HasSuffix(base, ":0") {
			t.Errorf("%v: the URL is %s", test.flags, whole)
		}
		for url, want := range map[string]int{base + "/readyz": 200, base + "/": test.status, whole: 426} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			if url == whole && test.bearer != "" {
				request.Header.Set("Authorization", "Bearer "+test.bearer)
			}
			if got := status(t, request); got != want {
				t.Errorf("%v: %s: %d", test.flags, url, got)
			}
		}
		r.stop()
	}
}

func TestServeOnASocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	r := launch(t, "serve", "--listen", "unix://"+path)
	if url := r.line(); url != "unix://"+path {
		t.Errorf("the URL is %s", url)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(`{"id":"x","method":"initialize","params":{"clientName":"test"}}` + "\n")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 100)
	if n, err := conn.Read(answer); err != nil || !strings.HasPrefix(string(answer[:n]), `{"id":"x","result":{"sessionId":"`) {
		t.Errorf("got %s, %v", answer[:n], err)
	}
	r.stop()
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is left")
	}
}

// What a client asks for decides what confines a command, within what the server allows. The files are looked at from outside.
func TestServeConfinesCommands(t *testing.T) {
	confinedHere(t)
	t.Setenv("TMPDIR", "") // the default: /tmp
	files := func(more string) string {
		return `{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}` + more + `]}}`
	}
	writes := func(kind string) string {
		return `,{"path":{"type":"special","value":{"kind":"` + kind + `"}},"access":"write"}`
	}
	const nothing = ""
	readOnly, workspace := files(""), files(writes("project_roots")+writes("slash_tmp")+writes("tmpdir"))
	const fails = "cannot start"
	for name, c := range map[string]struct {
		flags  []string
		asked  string // the permissions of the client's sandbox
		writes string // where the command can write
	}{
		"the client asks for none":           {nil, nothing, "inside and outside"},
		"the client asks for a workspace":    {nil, workspace, "inside"},
		"the client asks for reading":        {nil, readOnly, ""},
		"danger-full-access":                 {[]string{"--sandbox", "danger-full-access"}, nothing, "inside and outside"},
		"something else confines":            {[]string{"--sandbox", "external-sandbox"}, nothing, "inside and outside"},
		"a workspace":                        {[]string{"--sandbox", "workspace-write"}, nothing, "inside"},
		"a workspace and one more directory": {[]string{"--sandbox", "workspace-write", "--writable", "/var/tmp"}, nothing, "inside and outside"},
		"reading":                            {[]string{"--sandbox", "read-only"}, nothing, ""},
		"both the same":                      {[]string{"--sandbox", "workspace-write"}, workspace, "inside"},
		"the client asks for less":           {[]string{"--sandbox", "workspace-write"}, readOnly, ""},
		"the client asks for more":           {[]string{"--sandbox", "read-only"}, workspace, fails},
		"the client asks for everything":     {[]string{"--sandbox", "workspace-write"}, `{"type":"disabled"}`, fails},
	} {
		t.Run(name, func(t *testing.T) {
			r := launch(t, append([]string{"serve", "--listen", "stdio", "--assurance", "confined"}, c.flags...)...)
			r.call("1", "initialize", `{"clientName":"test"}`)
			r.send(`{"method":"initialized"}`)
			within, beyond, sandbox := filepath.Join(r.c.Dir, "file"), outside(t), ""
			if c.asked != nothing {
				sandbox = `,"sandbox":{"permissions":` + c.asked + `,"cwd":"` + r.c.Dir + `","least":"confined"}`
			}
			answer := r.call("2", "process/start", `{"processId":"p","argv":["/bin/sh","-c","echo x >file; echo x >`+beyond+`"],"cwd":"`+r.c.Dir+
				`","env":{"PATH":"/usr/bin:/bin"},"tty":false`+sandbox+`}`)
			if refused := strings.Contains(answer, `"error":{"code":-32602,`); refused != (c.writes == fails) {
				t.Fatal(answer)
			} else if refused {
				return
			}
			for ended := false; !ended; {
				ended = strings.Contains(r.line(), "process/closed")
			}
			for path, want := range map[string]bool{within: strings.Contains(c.writes, "inside"), beyond: strings.Contains(c.writes, "outside")} {
				if _, err := os.Stat(path); (err == nil) != want {
					t.Errorf("%s: %v; want written %v", path, err, want)
				}
			}
			_ = r.in.Close()
			if code := r.wait(); code != 0 || r.errors.Len() > 0 {
				t.Errorf("exit code %d, %s", code, r.errors.String())
			}
		})
	}
}

func TestServeIsMisused(t *testing.T) {
	for _, test := range []struct {
		line, says string
		code       int
	}{
		{"serve now", `"now"`, exitMisused},
		{"serve --lisen stdio", "did you mean --listen?", exitMisused},
		{"serve --listen stdio --no-auth", "--listen ws://", exitMisused},
		{"serve --listen unix:///tmp/x --token-file x", "--listen ws://", exitMisused},
		{"serve --no-auth --token-file x", "contradicts", exitMisused},
		{"serve --tls-cert x", "go together", exitMisused},
		{"serve --window-viewers", "need --window", exitMisused},
		{"serve --window 0.0.0.0:0", "use a loopback address, or TLS", exitFailed},
		{"serve --client-ca x", "go together", exitMisused},
		{"serve --sandbox everything", "everything", exitMisused},
		{"serve --listen http://127.0.0.1:0", "ws://IP:PORT", exitFailed},
		{"serve --listen ws://localhost:0", "ws://IP:PORT", exitFailed},
		{"serve --listen ws://0.0.0.0:0 --no-auth", "loopback", exitFailed},
		{"serve --token-file /does/not/exist", "no such file", exitFailed},
		{"serve --tls-cert /does/not/exist --tls-key x", "no such file", exitFailed},
		{"serve --max-processes 0", "1 or more", exitMisused},
		{"serve --file-root /does/not/exist", "no such file", exitFailed},
	} {
		out, errors, code := program(t, strings.Fields(test.line)...)
		if code != test.code || out != "" || !strings.Contains(errors, test.says) {
			t.Errorf("%s: exit code %d, %q, %s", test.line, code, out, errors)
		}
	}
}
