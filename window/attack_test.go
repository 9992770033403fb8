package window_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/window"
)

// request sends a request with what an attacker can set, and returns the answer without following it.
func (b *browser) request(method, target string, cookie bool, headers map[string]string) *http.Response {
	b.t.Helper()
	r, err := http.NewRequest(method, target, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	if cookie {
		r.AddCookie(b.cookie())
	}
	for name, value := range headers {
		if name == "Host" {
			r.Host = value
		} else {
			r.Header.Set(name, value)
		}
	}
	response, err := b.client.Transport.RoundTrip(r)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { response.Body.Close() })
	return response
}

func TestOnlyWhoHasALinkSeesAnything(t *testing.T) {
	s := newStage(t, execbus.SessionOptions{})
	process := s.start("echo secret output; read -r x")
	link := s.window.Link(s.server.URL)
	b := s.enter(link)
	at := fmt.Sprintf("p/%s/%d", s.session.ID(), process.ID())
	other, err := window.New(shared(), window.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	cookie := b.cookie()
	if len(cookie.Value) < 26 {
		t.Errorf("a cookie of %d characters can be guessed", len(cookie.Value))
	}
	websocketHeaders := func(origin string) map[string]string {
		return map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Origin": origin}
	}
	for name, a := range map[string]struct {
		method, target string
		cookie         bool
		headers        map[string]string
		want           int
	}{
		"no cookie":                     {"GET", b.base, false, nil, 403},
		"no cookie, a process":          {"GET", b.base + at, false, nil, 403},
		"no cookie, its output":         {"GET", b.base + at + "/output", false, nil, 403},
		"no cookie, all of it":          {"GET", b.base + at + "/output?view=raw", false, nil, 403},
		"no cookie, the script":         {"GET", b.base + "script.js", false, nil, 403},
		"no cookie, the root":           {"GET", s.server.URL + "/", false, nil, 403},
		"no cookie, a websocket":        {"GET", b.base + "live", false, websocketHeaders(s.server.URL), 403},
		"a guessed cookie":              {"GET", b.base, false, map[string]string{"Cookie": "execbus-window=AAAAAAAAAAAAAAAAAAAAAAAAAA"}, 403},
		"an empty cookie":               {"GET", b.base, false, map[string]string{"Cookie": "execbus-window="}, 403},
		"the token again":               {"GET", link, false, nil, 403},
		"the token as a cookie":         {"GET", b.base, false, map[string]string{"Cookie": "execbus-window=" + link[strings.LastIndex(link, "=")+1:]}, 403},
		"a guessed token":               {"GET", s.server.URL + "/?token=AAAAAAAAAAAAAAAAAAAAAAAAAA", false, nil, 403},
		"another window's token":        {"GET", other.Link(s.server.URL), false, nil, 403},
		"an empty token":                {"GET", s.server.URL + "/?token=", false, nil, 403},
		"two tokens":                    {"GET", s.server.URL + "/?token=x&token=" + url.QueryEscape(cookie.Value), false, nil, 403},
		"the path of another window":    {"GET", s.server.URL + "/AAAA/", true, nil, 403},
		"above the path":                {"GET", s.server.URL + "/../", true, nil, 403},
		"a rebound name":                {"GET", b.base, true, map[string]string{"Host": "evil.example:" + port(s.server.URL)}, 421},
		"a rebound name, a link":        {"GET", s.window.Link(s.server.URL), false, map[string]string{"Host": "evil.example"}, 421},
		"a name that begins like ours":  {"GET", b.base, true, map[string]string{"Host": "localhost.evil.example"}, 421},
		"a name with our address in it": {"GET", b.base, true, map[string]string{"Host": "127.0.0.1.nip.io"}, 421},
		"another address":               {"GET", b.base, true, map[string]string{"Host": "10.0.0.1"}, 421},
		"all addresses":                 {"GET", b.base, true, map[string]string{"Host": "0.0.0.0"}, 421},
		"an empty host":                 {"GET", b.base, true, map[string]string{"Host": "[]:80"}, 421},
		"a form of another site":        {"POST", b.base, true, map[string]string{"Origin": "https://evil.example"}, 405},
		"a form of our own":             {"POST", b.base, true, map[string]string{"Origin": s.server.URL}, 405},
		"another method":                {"DELETE", b.base + at, true, nil, 405},
		"what a form can ask for":       {"GET", b.base + at + "?do=terminate", true, nil, 200},
		"a websocket of another site":   {"GET", b.base + "live", true, websocketHeaders("https://evil.example"), 403},
		"a websocket of another port":   {"GET", b.base + "live", true, websocketHeaders("http://127.0.0.1:1"), 403},
		"a websocket of a sandbox":      {"GET", b.base + "live", true, websocketHeaders("null"), 403},
		"a websocket without an origin": {"GET", b.base + "live", true, websocketHeaders(""), 403},
		"a file that is not ours":       {"GET", b.base + "../../etc/passwd", true, nil, 404},
		"a file beside ours":            {"GET", b.base + "overview.html", true, nil, 404},
		"another's session":             {"GET", b.base + "p/none/1000", true, nil, 404},
		"a process that is none":        {"GET", b.base + "p/" + string(s.session.ID()) + "/-1", true, nil, 404},
		"a process with a huge number":  {"GET", b.base + "p/" + string(s.session.ID()) + "/99999999999999999999999", true, nil, 404},
		"an offset that is none":        {"GET", b.base + at + "/output?from=-5", true, nil, 200},
		"an endless pattern":            {"GET", b.base + at + "/output?q=" + strings.Repeat("(a*)*", 1000), true, nil, 200},
		"a pattern with markup":         {"GET", b.base + at + "/output?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E", true, nil, 200},
	} {
		response := b.request(a.method, a.target, a.cookie, a.headers)
		body, _ := io.ReadAll(response.Body)
		if response.StatusCode != a.want {
			t.Errorf("%s: %s, want %d", name, response.Status, a.want)
		}
		if a.want != 200 && strings.Contains(string(body), "secret") || strings.Contains(string(body), "<script>alert") {
			t.Errorf("%s: it is told %q", name, body)
		}
		for header, want := range map[string]string{"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
			"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin"} {
			if got := response.Header.Get(header); got != want {
				t.Errorf("%s: %s is %q", name, header, got)
			}
		}
		if len(response.Header["Access-Control-Allow-Origin"]) > 0 {
			t.Errorf("%s: other sites may read it", name)
		}
	}
	if info, err := process.Info(s.context()); err != nil || info.State != messages.StateRunning {
		t.Errorf("%+v, %v", info, err)
	}
}

func port(server string) string {
	u, _ := url.Parse(server)
	return u.Port()
}

func TestACookieIsForThisWindowAlone(t *testing.T) {
	s := newStage(t, execbus.SessionOptions{})
	b := s.enter(s.window.Link(s.server.URL))
	response := b.request("GET", s.window.Link(s.server.URL), false, nil)
	set := response.Cookies()
	if response.StatusCode != http.StatusSeeOther || len(set) != 1 {
		t.Fatalf("%s, %v", response.Status, set)
	}
	if c := set[0]; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != response.Header.Get("Location") || len(c.Path) < 26 || c.Secure || c.Domain != "" {
		t.Errorf("%+v", c)
	}
	secure, err := window.New(shared(), window.Options{Secure: true, Hosts: []string{"build.example"}})
	if err != nil {
		t.Fatal(err)
	}
	defer secure.Close()
	s.server.Config.Handler = secure
	response = b.request("GET", secure.Link(s.server.URL), false, map[string]string{"Host": "build.example:8443"})
	if set := response.Cookies(); len(set) != 1 || !set[0].Secure {
		t.Errorf("%s, %v", response.Status, set)
	}
}

// Nobody who has a link for viewers can do anything, whatever is sent.
func TestViewersCanOnlyLook(t *testing.T) {
	s := newStage(t, execbus.SessionOptions{})
	process := s.start("echo ready; read -r x; echo got $x")
	link := s.window.ViewersLink(s.server.URL)
	s.enter(link)
	b := s.enter(link) // it is good for several
	p := b.live(process)
	p.screenShows("ready")
	p.until("the page has its controls", func() bool { return len(p.order["tools"]) > 0 })
	if strings.Contains(p.part("tools"), "<button") {
		t.Errorf("%s", p.part("tools"))
	}
	for _, action := range []map[string]any{{"do": "take"}, {"do": "type", "text": "x\r"}, {"do": "return"}, {"do": "resize", "size": map[string]int{"rows": 10, "cols": 10}}, {"do": "eof"},
		{"do": "signal", "signal": "KILL"}, {"do": "terminate"}, {"do": "decide", "session": s.session.ID(), "question": "q", "kind": "approved"},
		{"do": "revoke", "session": s.session.ID(), "grant": "g"}, {"do": "unknown"}} {
		if failed := p.do(action); !strings.Contains(failed, "viewers") {
			t.Errorf("%v: %q", action, failed)
		}
	}
	info, err := process.Info(s.context())
	if err != nil || info.State != messages.StateRunning || info.Keyboard != nil || info.Size.Cols != 80 {
		t.Errorf("%+v, %v", info, err)
	}
	s.window.ViewersLink(s.server.URL)
	if response := b.request("GET", link, false, nil); response.StatusCode != 403 {
		t.Errorf("the old link: %s", response.Status)
	}
}

// What programs, models and file names say is never markup, wherever it is shown.
func TestNothingThatIsShownBecomesMarkup(t *testing.T) {
	const evil = `<script>alert(1)</script><img src=x onerror=alert(2)>"'&` + "\u202e"
	s := newStage(t, execbus.SessionOptions{})
	dir := s.t.TempDir() + "/<b>dir"
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	process, err := s.session.Start(s.context(), messages.ExecCommand{Argv: []string{"bash", "-c", `printf '%s\n' "$1"; printf '\033]0;%s\a' "$1"; read -r x; exit 3`, "bash", evil},
		TTY: true, Dir: dir, Owner: evil, Call: messages.CallID(evil)})
	if err != nil {
		t.Fatal(err)
	}
	b := s.enter(s.window.Link(s.server.URL))
	tags := regexp.MustCompile(`(?i)<(script|img|b)\b|onerror=alert\(2\)>`)
	overview, p := b.live(nil), b.live(process)
	overview.shows("processes", "&lt;script&gt;")
	p.screenShows("<script>alert(1)</script>")
	p.until("the title is there", func() bool { return strings.Contains(p.last["title"].(string), "<img") })
	p.shows("facts", "&lt;b&gt;dir")
	at := fmt.Sprintf("p/%s/%d", s.session.ID(), process.ID())
	for _, query := range []string{at, at + "/output", at + "/output?view=bytes", at + "/output?q=script", at + "/output?q=" + url.QueryEscape("("+evil), "?q=" + url.QueryEscape(evil), "?session=" + url.QueryEscape(evil), "p/" + url.PathEscape(evil) + "/1"} {
		_, body, _ := b.get(query)
		if found := tags.FindString(strings.Replace(body, `<script src="`, "", 1)); found != "" {
			t.Errorf("%s: the page has %q", query, found)
		}
	}
	for _, part := range []string{overview.all(), p.all()} {
		if found := tags.FindString(part); found != "" {
			t.Errorf("a part has %q:\n%s", found, part)
		}
	}
}

// Frames that are too large, broken or out of place end their connection and nothing else.
func TestBrokenFramesEndTheirConnection(t *testing.T) {
	s := newStage(t, execbus.SessionOptions{})
	process := s.start("echo ready; read -r x")
	b := s.enter(s.window.Link(s.server.URL))
	for name, frames := range map[string][]string{
		"huge":              {`{"seat":"a"}`, `{"n":1,"do":"type","text":"` + strings.Repeat("x", 70<<10) + `"}`},
		"no JSON":           {`{"seat":"a"}`, `{`},
		"deep":              {`{"seat":"a"}`, strings.Repeat("[", 60<<10)},
		"no hello":          {`[]`},
		"no seat":           {`{"seat":""}`},
		"a long seat":       {`{"seat":"` + strings.Repeat("s", 65) + `"}`},
		"a number too much": {`{"seat":"a"}`, `{"n":1e300}`},
	} {
		socket, _, err := websocket.Dial(s.context(), b.base+"live", &websocket.DialOptions{HTTPClient: b.client, HTTPHeader: http.Header{"Origin": {s.server.URL}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, frame := range frames {
			_ = socket.Write(s.context(), websocket.MessageText, []byte(frame)) // it may have ended already
		}
		for err == nil {
			_, _, err = socket.Read(s.context())
		}
		if websocket.CloseStatus(err) == -1 && !strings.Contains(err.Error(), "EOF") && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %v", name, err)
		}
		_ = socket.CloseNow()
	}
	b.live(process).screenShows("ready")
}

// Browsers that read nothing are left, and meanwhile cost a bounded amount of memory and hold up nobody. WINDOW_VIEWERS=500 makes it harder.
func TestManyViewersAndSlowOnes(t *testing.T) {
	const slow = 20
	viewers := 50
	if more, err := strconv.Atoi(os.Getenv("WINDOW_VIEWERS")); err == nil {
		viewers = max(viewers, more)
	}
	s := newStage(t, execbus.SessionOptions{})
	process := s.start(`read -r x; while :; do echo "$RANDOM$RANDOM$RANDOM$RANDOM$RANDOM$RANDOM$RANDOM"; done`)
	b := s.enter(s.window.ViewersLink(s.server.URL))
	var sockets []*page
	for i := range viewers {
		p, err := b.dial(process, fmt.Sprint("viewer", i), nil)
		if err != nil {
			t.Fatalf("viewer %d: %v", i, err)
		}
		sockets = append(sockets, p)
	}
	for range slow {
		s.deaf(b, process)
	}
	for _, p := range sockets {
		p.until("the screen comes", func() bool { return p.last != nil })
	}
	before := memory()
	if _, err := s.session.Write(s.context(), messages.WriteStdin{Process: process.ID(), Bytes: []byte("\n"), UntilTaken: true}); err != nil {
		t.Fatal(err)
	}
	total := func() int64 {
		page, err := process.Read(s.context(), messages.ReadOutput{Tail: 1})
		if err != nil {
			t.Fatal(err)
		}
		return page.Total
	}
	for total() < 2<<20 { // it is not held up by those who read nothing
		sockets[0].read()
	}
	for _, p := range sockets[:20] {
		changed := p.last
		p.until("another picture comes", func() bool { return fmt.Sprint(p.last) != fmt.Sprint(changed) })
	}
	if grown := memory() - before; grown > int64(viewers+slow)*400<<10 {
		t.Errorf("%d viewers of a flood take %d MiB", viewers+slow, grown>>20)
	}
}

func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// deaf opens a page and never reads what comes.
func (s *stage) deaf(b *browser, process *execbus.Process) {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.server.Listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	_ = conn.(*net.TCPConn).SetReadBuffer(4096)
	u, _ := url.Parse(b.base)
	fmt.Fprintf(conn, "GET %slive HTTP/1.1\r\nHost: %s\r\nOrigin: %s\r\nCookie: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
		u.Path, u.Host, s.server.URL, b.cookie())
	if status, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(status, "101") {
		s.t.Fatal(status, err)
	}
	hello, _ := json.Marshal(map[string]any{"seat": "deaf", "session": s.session.ID(), "process": process.ID()})
	frame := append([]byte{0x81, 0x80 | 126, byte(len(hello) >> 8), byte(len(hello)), 0, 0, 0, 0}, hello...)
	if _, err := conn.Write(frame); err != nil {
		s.t.Fatal(err)
	}
}

// A person who asks for much is answered in bounded memory, and links that nobody uses make room for others.
func TestLinksAreBounded(t *testing.T) {
	s := newStage(t, execbus.SessionOptions{})
	first := s.window.Link(s.server.URL)
	for range 64 {
		s.window.Link(s.server.URL)
	}
	b := s.enter(s.window.Link(s.server.URL))
	if response := b.request("GET", first, false, nil); response.StatusCode != 403 {
		t.Errorf("the oldest link: %s", response.Status)
	}
	viewers := s.window.ViewersLink(s.server.URL)
	for range 300 { // viewers push out no person who may act
		b.request("GET", viewers, false, nil).Body.Close()
	}
	if status, _, _ := b.get(""); status != 200 {
		t.Errorf("the person is answered with %d", status)
	}
}
