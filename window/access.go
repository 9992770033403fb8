package window

import (
	"crypto/rand"
	"crypto/sha256"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/execbus/execbus/internal/connections"
)

// Bounds on what the window remembers of people. The oldest makes room.
const (
	maxLinks   = 64  // links that nobody has used
	maxPersons = 256 // browsers with a cookie, of those who may act and of viewers each
)

// secret is the sum of a token or a cookie: what is compared does not depend on the secret's bytes.
type secret [sha256.Size]byte

// person is a browser that has shown a token.
type person struct {
	reader bool // it may look, and nothing else
}

// access knows who may see the window.
type access struct {
	secure bool
	path   string // of all pages: /RANDOM/

	// The lock is held for a look-up or an insertion, by requests of any goroutine.
	mu      sync.Mutex
	hosts   []string
	viewers secret // the token of viewers; zero if there is none
	// When links were made, and when browsers came: those that may act, and viewers.
	links, people, readers map[secret]time.Time
}

func newAccess(o Options) *access {
	return &access{hosts: slices.Clone(o.Hosts), secure: o.Secure, path: "/" + rand.Text() + "/", links: map[secret]time.Time{}, people: map[secret]time.Time{}, readers: map[secret]time.Time{}}
}

// add adds a name under which the window is reached.
func (a *access) add(host string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hosts = append(a.hosts, host)
}

// link makes a token that is good for one use.
func (a *access) link() string {
	token := rand.Text()
	a.mu.Lock()
	defer a.mu.Unlock()
	trim(a.links, maxLinks)
	a.links[sha256.Sum256([]byte(token))] = time.Now()
	return token
}

// viewersLink makes the token of viewers. An earlier one is good no more; those who have used it stay.
func (a *access) viewersLink() string {
	token := rand.Text()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.viewers = sha256.Sum256([]byte(token))
	return token
}

// trim removes the oldest entry of a full map.
func trim(m map[secret]time.Time, most int) {
	if len(m) < most {
		return
	}
	var oldest secret
	since := time.Now()
	for key, at := range m {
		if at.Before(since) {
			oldest, since = key, at
		}
	}
	delete(m, oldest)
}

// enter takes a token for a cookie; it is empty if the token is not good.
func (a *access) enter(token string) (cookie string) {
	sum := sha256.Sum256([]byte(token))
	a.mu.Lock()
	defer a.mu.Unlock()
	into := a.readers
	if _, once := a.links[sum]; once {
		into = a.people
		delete(a.links, sum)
	} else if (a.viewers == secret{} || sum != a.viewers) {
		return ""
	}
	trim(into, maxPersons)
	cookie = rand.Text()
	into[sha256.Sum256([]byte(cookie))] = time.Now()
	return cookie
}

const cookieName = "execbus-window"

// who is the person of a request; false if it has shown no token.
func (a *access) who(r *http.Request) (key secret, p person, known bool) {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return key, p, false
	}
	key = sha256.Sum256([]byte(cookie.Value))
	a.mu.Lock()
	defer a.mu.Unlock()
	_, acts := a.people[key]
	_, looks := a.readers[key]
	return key, person{reader: looks}, acts || looks
}

// named reports whether a request is addressed to this window. A name that others can make lead here, as by rebinding a name of theirs, is
// not among the hosts.
func (a *access) named(host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = host, "80"
	}
	if port == "" {
		return false
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if ip := net.ParseIP(name); name == "localhost" || ip != nil && ip.IsLoopback() {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.hosts, func(allowed string) bool { return strings.EqualFold(strings.Trim(allowed, "[]"), name) })
}

// ours reports whether a request comes from one of our own pages: browsers say where a websocket is opened.
func ours(r *http.Request) bool {
	origin, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && origin.Host != "" && strings.EqualFold(origin.Host, r.Host)
}

// policy lets a page load our script and our style, and nothing else from anywhere; no page may frame it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func guard(header http.Header) {
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
}

// admit answers requests that may not see a page itself, and reports whether one may.
func (a *access) admit(w http.ResponseWriter, r *http.Request) (key secret, p person, may bool) {
	guard(w.Header())
	switch token := r.URL.Query().Get("token"); {
	case !a.named(r.Host):
		http.Error(w, "this window is not reached under that name", http.StatusMisdirectedRequest)
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "a window only answers GET", http.StatusMethodNotAllowed)
	case r.URL.Path == "/" && token != "":
		cookie := a.enter(token)
		if cookie == "" {
			http.Error(w, "this link has been used, or is not one of this window; ask the program that printed it for another", http.StatusForbidden)
			return key, p, false
		}
		// The path keeps the cookie from other servers on this machine: browsers do not tell ports apart.
		http.SetCookie(w, &http.Cookie{Name: cookieName, Value: cookie, Path: a.path, HttpOnly: true, Secure: a.secure, SameSite: http.SameSiteStrictMode})
		http.Redirect(w, r, a.path, http.StatusSeeOther)
	default:
		if key, p, may = a.who(r); !may || !strings.HasPrefix(r.URL.Path, a.path) {
			may = false
			http.Error(w, "open this window with the link that its program has printed", http.StatusForbidden)
			return key, p, false
		}
		if !p.reader { // viewers, who may be many, are admitted for pages that are open only
			connections.Admit(r.Context())
		}
	}
	return key, p, may
}
