package window

import (
	"context"
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// Options of a window. The zero value serves people on this machine.
type Options struct {
	// Hosts are the names and addresses under which people reach the window, besides localhost and loopback addresses. Requests to any
	// other name are refused.
	Hosts []string
	// Secure says that people reach it over TLS: browsers then send the cookie over nothing else.
	Secure bool
	// Insecure lets Serve listen at addresses that are not loopback addresses, without TLS.
	Insecure bool
}

// Window is the page of a runtime, or of another Source. It is an http.Handler for a server of its own: its pages begin at "/". Its methods are safe for concurrent use.
type Window struct {
	source   source
	access   *access
	events   *timeline
	sampler  *sampler
	insecure bool
	pings    time.Duration // between two pings of a browser
	pongs    time.Duration // for an answer
	ctx      context.Context
	close    context.CancelFunc
	work     sync.WaitGroup

	// The lock is held for moments, by the goroutines of connections that come, act or go.
	mu        sync.Mutex
	seats     map[seatKey]*seat
	feeds     map[key]*feed
	sockets   int
	listening context.CancelFunc // ends the subscription by which people can be asked; nil while nobody who may answer looks
}

// New makes the window of a runtime. Somebody must Close it; it also ends with the runtime.
func New(rt *execbus.Runtime, options Options) (*Window, error) {
	if rt == nil {
		return nil, &messages.Error{Code: messages.ErrInvalidRequest, Op: "open window", Subject: "runtime", Detail: "there is none; start one first"}
	}
	events := newTimeline()
	return newWindow(hosted{rt, events}, events, options), nil
}

// Of makes the window of a source that is no runtime. It has no questions, approvals, time lines, keyboards, executions and
// recordings. Somebody must Close it, at the latest when the source ends.
func Of[S Session](source Source[S], options Options) *Window {
	return newWindow(served[S]{source}, newTimeline(), options)
}

func newWindow(source source, events *timeline, options Options) *Window {
	w := &Window{source: source, access: newAccess(options), insecure: options.Insecure, pings: pingPause, pongs: sendTime, seats: map[seatKey]*seat{}, feeds: map[key]*feed{},
		events: events}
	w.ctx, w.close = context.WithCancel(context.Background())
	w.sampler = newSampler(w)
	w.work.Go(func() { source.Follow(w.ctx, w.sampler.poke) })
	return w
}

// Close ends all connections, gives back the keyboards that people have through this window, and returns when nothing of it runs any more.
func (w *Window) Close() {
	w.close()
	w.mu.Lock()
	seats := w.seats
	w.seats = map[seatKey]*seat{}
	w.mu.Unlock()
	for _, s := range seats {
		if s.leaving != nil {
			s.leaving.Stop()
		}
		s.leave(w)
	}
	w.work.Wait()
}

// Link is a URL of the window that is good for one browser, once: it may do everything. At most 64 unused ones are good; the oldest goes
// first. base is where the window is served, such as "http://127.0.0.1:8080".
func (w *Window) Link(base string) string { return join(base, w.access.link()) }

// ViewersLink is a URL for people who may look and nothing else. It is good for any number of browsers, until the next one is made.
func (w *Window) ViewersLink(base string) string { return join(base, w.access.viewersLink()) }

func join(base, token string) string {
	return strings.TrimSuffix(base, "/") + "/?token=" + url.QueryEscape(token)
}

//go:embed page
var pages embed.FS

// templates escape what they are given, wherever it stands.
var templates = template.Must(template.New("").Funcs(template.FuncMap{"visible": messages.Visible, "plain": plain,
	"clock": func(t time.Time) string { return t.Format("15:04:05") }, "stamp": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"inc": func(i int) int { return i + 1 }, "list": func(names ...string) []string { return names }, "text": func(b []byte) string { return string(b) },
	"top": func(base, title string) map[string]string { return map[string]string{"Base": base, "Title": title} }}).ParseFS(pages, "page/*.html"))

func plain(name string) string { return strings.ReplaceAll(name, "_", " ") }

// ServeHTTP implements http.Handler.
func (w *Window) ServeHTTP(response http.ResponseWriter, r *http.Request) {
	hurry(response)
	who, p, may := w.access.admit(response, r)
	if !may {
		return
	}
	path := strings.TrimPrefix(r.URL.Path, w.access.path)
	parts := strings.Split(path, "/")
	switch {
	case path == "":
		w.render(response, "overview.html", overviewPage{Base: w.access.path, Reader: p.reader, Hosted: w.runtime() != nil,
			Session: r.URL.Query().Get("session"), Query: r.URL.Query().Get("q")})
	case path == "style.css" || path == "script.js":
		http.ServeFileFS(response, r, pages, "page/"+path)
	case path == "live":
		w.live(response, r, who, p)
	case parts[0] == "p" && (len(parts) == 3 || len(parts) == 4 && parts[3] == "output"):
		id, _ := strconv.Atoi(parts[2])
		k := key{messages.SessionID(parts[1]), messages.ProcessID(id)}
		info, err := w.describe(r.Context(), k)
		switch {
		case err != nil:
			response.WriteHeader(http.StatusNotFound)
			w.render(response, "gone.html", gonePage{Base: w.access.path, Text: err.Error()})
		case len(parts) == 4:
			w.output(response, r, k, info)
		default:
			s := own(w.source.Session(k.Session))
			w.render(response, "process.html", processPage{Base: w.access.path, Reader: p.reader, Hosted: w.runtime() != nil, Key: k, Info: info,
				Recorded: s != nil && s.Recording(k.Process) != ""})
		}
	default:
		http.NotFound(response, r)
	}
}

// hurry leaves a browser that does not take what is written next.
func hurry(response http.ResponseWriter) {
	_ = http.NewResponseController(response).SetWriteDeadline(time.Now().Add(sendTime)) // not every server has deadlines
}

type overviewPage struct {
	Base           string
	Reader         bool
	Hosted         bool // it is about a runtime
	Session, Query string
}

type processPage struct {
	Base   string
	Reader bool
	Hosted bool
	Key    key
	Info   messages.ProcessInfo
	// Recorded says that there is a recording.
	Recorded bool
}

type gonePage struct{ Base, Text string }

func (w *Window) render(response http.ResponseWriter, name string, data any) {
	response.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = templates.ExecuteTemplate(response, name, data) // an error is that of a browser that has gone
}

// key names a process.
type key struct {
	Session messages.SessionID
	Process messages.ProcessID
}

// Path is the process's page, behind the path of all.
func (k key) Path() string { return "p/" + string(k.Session) + "/" + k.Process.String() }

// session is an open session, or an error that people can read.
func (w *Window) session(id messages.SessionID) (Session, error) {
	if s := w.source.Session(id); s != nil {
		return s, nil
	}
	return nil, &messages.Error{Code: messages.ErrClosed, Op: "look", Subject: "session", Detail: "it has ended, or there was none of that name; look at the overview"}
}

// describe describes a process that the session has or remembers.
func (w *Window) describe(ctx context.Context, k key) (messages.ProcessInfo, error) {
	s, err := w.session(k.Session)
	if err != nil {
		return messages.ProcessInfo{}, err
	}
	return s.Info(ctx, k.Process)
}
