package execserver

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/internal/connections"
)

// Handler serves clients over websockets at any path, and answers GET /readyz with 200. If token is not empty, a client must send it
// as "Authorization: Bearer TOKEN" or as the query's "token". Otherwise every client that reaches the handler can run commands.
// A request with an Origin header comes from a web page and is refused with 403.
func (s *Server) Handler(token string) http.Handler {
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(headTime)) // for the body; an upgrade ends it
		switch {
		case len(r.Header.Values("Origin")) > 0:
			connections.Refuse(w, http.StatusForbidden, "requests from web pages are refused")
		case r.URL.Path == "/readyz" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			w.WriteHeader(http.StatusOK)
		case token != "" && !brings(r, want):
			connections.Refuse(w, http.StatusUnauthorized, "the token is missing or wrong; send it as Authorization: Bearer TOKEN, or as ?token=TOKEN")
		default:
			connections.Admit(r.Context())
			s.upgrade(w, r)
		}
	})
}

// brings reports whether a request has the token. The comparison takes the same time for every wrong token.
func brings(r *http.Request, want [sha256.Size]byte) bool {
	said := connections.Bearer(r)
	if r.Header.Get("Authorization") == "" {
		said = r.URL.Query().Get("token")
	}
	got := sha256.Sum256([]byte(said))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

func (s *Server) upgrade(w http.ResponseWriter, r *http.Request) {
	conn, err := wire.Accept(w, r, s.options.MaxMessage)
	if err != nil {
		return // it has been answered
	}
	_ = s.serve(s.ctx, conn, false)
}
