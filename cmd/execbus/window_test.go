package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The window of a server shows what its clients run. Its links are on standard error, because standard output is the protocol's.
func TestMCPHasAWindow(t *testing.T) {
	r := launch(t, "mcp", "--no-login-shell", "--sandbox", "danger-full-access", "--no-keep-output", "--window", "127.0.0.1:0", "--window-viewers")
	r.send(hello)
	if answer := r.answer("1"); !strings.Contains(answer, "serverInfo") {
		t.Fatal(answer)
	}
	links := regexp.MustCompile(`http://127\.0\.0\.1:\d+/\?token=\w+`).FindAllString(r.errors.String(), -1)
	if len(links) != 2 {
		t.Fatalf("%q", r.errors.String())
	}
	r.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec_command","arguments":{"cmd":"sleep 1000","yield_time_ms":250}}}`)
	r.answer("2")
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
