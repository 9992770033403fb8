package connections

import (
	"net/http"
	"strings"
	"time"
)

// Bearer returns the token that a request brings as "Authorization: Bearer TOKEN". The word may be written in any case.
func Bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimLeft(token, " ")
}

// bodyTime is how long the body of a request that was turned away may still come, so that its client gets the answer and no reset.
const bodyTime = time.Second

// Refuse answers a request that is not served, and ends its connection. The answer does not wait for the body.
func Refuse(w http.ResponseWriter, status int, text string) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // a writer of another kind has bounds of its own
	w.Header().Set("Connection", "close")
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	http.Error(w, text, status)
}
