package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/tests/expect"
)

// The window of a server shows what its clients run. Its links are on standard error, because standard output is the protocol's.
func TestAServerHasAWindow(t *testing.T) {
	for command, start := range map[string]func(*running){
		"mcp": func(r *running) {
			r.send(hello)
			if answer := r.answer("1"); !strings.Contains(answer, "serverInfo") {
				t.Fatal(answer)
			}
			r.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec_command","arguments":{"cmd":"sleep 1000","yield_time_ms":250}}}`)
			r.answer("2")
		},
		"serve": func(r *running) {
			r.call("1", "initialize", `{"clientName":"test"}`)
			r.send(`{"method":"initialized"}`)
			r.call("2", "process/start", `{"processId":"p","argv":["sleep","1000"],"cwd":"/","env":{"PATH":"/usr/bin:/bin"},"tty":false}`)
		},
	} {
		t.Run(command, func(t *testing.T) {
			flags := map[string][]string{"mcp": {"--no-login-shell", "--sandbox", "danger-full-access", "--no-keep-output"}, "serve": {"--listen", "stdio"}}[command]
			r := launch(t, append(append([]string{command}, flags...), "--window", "127.0.0.1:0", "--window-viewers")...)
			start(r)
			var links []string
			expect.Eventually(t, "the links are there", func() bool { // standard error is read by itself, and may be behind the answers
				links = regexp.MustCompile(`http://127\.0\.0\.1:\d+/\?token=\w+\n`).FindAllString(r.errors.String(), -1)
				return len(links) >= 2
			})
			for i, link := range links {
				links[i] = strings.TrimSpace(link)
			}
			if len(links) != 2 {
				t.Fatalf("%q", r.errors.String())
			}
			for i, link := range append(links, links...) {
				jar, _ := cookiejar.New(nil)
				client := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
				response, err := client.Get(link)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(response.Body)
				response.Body.Close()
				if used := i == 2; used != (response.StatusCode == http.StatusForbidden) || !used && !strings.Contains(string(body), `id="processes"`) {
					t.Errorf("link %d: %s %s", i, response.Status, body)
				}
				if command != "serve" || i != 0 {
					continue
				}
				if response, err = client.Get(response.Request.URL.String() + "p/client-1/1000"); err != nil {
					t.Fatal(err)
				}
				body, _ = io.ReadAll(response.Body)
				response.Body.Close()
				if !strings.Contains(string(body), "sleep 1000") {
					t.Errorf("the page of the process: %s %s", response.Status, body)
				}
			}
			if err := r.in.Close(); err != nil {
				t.Fatal(err)
			}
			if code := r.wait(); code != 0 {
				t.Errorf("exit code %d, %s", code, r.errors.String())
			}
			if _, err := http.Get(links[1]); err == nil {
				t.Error("the window is still there")
			}
		})
	}
}

func TestWhereAWindowMayBe(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--window", "0.0.0.0:0"}, 1, "use a loopback address, or TLS"},
		{[]string{"--window", "nowhere"}, 1, "nowhere"},
		{[]string{"--window-viewers"}, 2, "need --window"},
		{[]string{"--window", "127.0.0.1:0", "--window-cert", "x.pem"}, 2, "go together"},
		{[]string{"--window", "127.0.0.1:0", "--window-cert", "/x.pem", "--window-key", "/x.key"}, 1, "/x.pem"},
	} {
		r := launch(t, append([]string{"mcp", "--sandbox", "danger-full-access", "--no-keep-output"}, c.args...)...)
		if code := r.wait(); code != c.code || !strings.Contains(r.errors.String(), c.want) {
			t.Errorf("%q: exit code %d, %s", c.args, code, r.errors.String())
		}
	}
	r := launch(t, "mcp", "--sandbox", "danger-full-access", "--no-keep-output", "--window", "0.0.0.0:0", "--window-insecure")
	for late := time.Now().Add(patience); !strings.Contains(r.errors.String(), "the window, for one browser: http://[::]:"); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%q", r.errors.String())
		}
	}
	if err := r.in.Close(); err != nil {
		t.Fatal(err)
	}
	r.wait()
}
