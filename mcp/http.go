package mcp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/execbus/execbus/internal/connections"
)

// DefaultIdleTimeout is the default of HTTPOptions.IdleTimeout.
const DefaultIdleTimeout = time.Hour

// HTTPOptions of a handler.
type HTTPOptions struct {
	// Token must come with each request, as "Authorization: Bearer TOKEN". Empty means that every client that reaches the handler can
	// run commands.
	Token string
	// IdleTimeout is how long a client may send nothing. Then its session and processes are ended. Zero means
	// DefaultIdleTimeout, a negative value never. Clients of protocol version 2026-07-28 and later have no session that could
	// be ended.
	IdleTimeout time.Duration
}

// Handler serves clients over streamable HTTP, at any path. Each client of a protocol with sessions has a session of execbus
// of its own. The clients of the protocol without sessions (2026-07-28 and later) share one session, with its processes and
// its approvals. Requests from pages of other sites are refused. So are requests that come over the loopback and name a host
// other than localhost.
func (s *Server) Handler(options HTTPOptions) http.Handler {
	if options.IdleTimeout == 0 {
		options.IdleTimeout = DefaultIdleTimeout
	}
	front := s.newConversation(func() {}) // it answers what the server supports and is never opened
	withSessions := sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server {
		if r.Header.Get(sessionHeader) != "" || r.Method != http.MethodPost {
			return front.protocol
		}
		return s.newAdopting().protocol
	}, &sdk.StreamableHTTPOptions{Logger: s.options.Logger, SessionTimeout: max(options.IdleTimeout, 0), MaxRequestBodyBytes: MaxMessage})
	shared := s.newConversation(func() {})
	sessionless := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return shared.protocol },
		&sdk.StreamableHTTPOptions{Logger: s.options.Logger, Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: MaxMessage})
	routed := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get(versionHeader) >= multiRound:
			if err := s.admit(shared, nil); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			sessionless.ServeHTTP(w, r)
		case r.Method == http.MethodDelete:
			if c := s.named(r.Header.Get(sessionHeader)); c != nil {
				c.close() // otherwise a waiting call would keep the session
			}
			withSessions.ServeHTTP(w, r)
		default:
			withSessions.ServeHTTP(w, r)
		}
	})
	pages := http.NewCrossOriginProtection()
	pages.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		connections.Refuse(w, http.StatusForbidden, "requests from pages of other sites are refused")
	}))
	return pages.Handler(authorized(options.Token, wellFormed(routed)))
}

// These headers of the protocol say who handles a request.
const (
	sessionHeader = "Mcp-Session-Id"
	versionHeader = "Mcp-Protocol-Version"
)

// newAdopting makes a conversation for the session whose first request reaches it. It ends with that session.
func (s *Server) newAdopting() *conversation {
	c := s.newConversation(func() {})
	c.protocol.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, request sdk.Request) (sdk.Result, error) {
			if method == "initialize" {
				session := request.GetSession().(*sdk.ServerSession)
				if err := s.admit(c, session); err != nil {
					return nil, err
				}
				go func() {
					_ = session.Wait()
					c.close()
				}()
			}
			return next(ctx, method, request)
		}
	})
	return c
}

// authorized refuses requests without the token. The comparison takes the same time for every wrong token.
func authorized(token string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(connections.Bearer(r)))
		if token != "" && subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
			connections.Refuse(w, http.StatusUnauthorized, "the token is missing or wrong; send it as Authorization: Bearer TOKEN")
			return
		}
		connections.Admit(r.Context())
		next.ServeHTTP(w, r)
	})
}

// bodyTime bounds the time for the body of a request.
const bodyTime = 2 * time.Minute

// wellFormed refuses bodies that are not JSON, and those that are nested so deeply that the library's parser would run out
// of stack.
func wellFormed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		reading := http.NewResponseController(w)
		_ = reading.SetReadDeadline(time.Now().Add(bodyTime)) // a writer of another kind has bounds of its own
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxMessage))
		_ = reading.SetReadDeadline(time.Time{})
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			http.Error(w, "the message is too long", http.StatusRequestEntityTooLarge)
			return
		}
		if err != nil {
			return // the client has gone
		}
		if !json.Valid(body) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write(refuse(nil, -32700, "the body is not JSON, or is nested too deeply"))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}
