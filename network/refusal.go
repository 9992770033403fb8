package network

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/hosts"
)

// refusal is why a connection was not made or was ended, in the words of each protocol.
type refusal struct {
	status     int  // of HTTP
	code       byte // of SOCKS
	reason     hosts.Reason
	decision   string // for JSON: deny, or ask if nobody has answered
	source     string // for JSON: the rules, or the persons who decide about the rest
	text       string
	protocol   messages.HostProtocol
	suggestion *messages.HostRule
}

// The sources of refusals, in the words of the program that many models know.
const (
	byRules  = "baseline_policy"
	byAsking = "decider"
)

// Error says why.
func (r *refusal) Error() string { return r.text }

// denied is what a decision refuses.
func denied(v hosts.Verdict) *refusal {
	return &refusal{http.StatusForbidden, socksNotAllowed, v.Reason, "deny", byRules, v.Text, v.Protocol, v.Suggestion}
}

// refused is what was asked about in vain.
func refused(v hosts.Verdict, why string) *refusal {
	return &refusal{http.StatusForbidden, socksNotAllowed, hosts.NotAllowed, "ask", byAsking, why, v.Protocol, v.Suggestion}
}

// unlike is a connection that carries something else than it was allowed for.
func unlike(v hosts.Verdict, suggestion *messages.HostRule, format string, args ...any) *refusal {
	return &refusal{http.StatusForbidden, socksNotAllowed, hosts.NotAllowed, "deny", byRules, fmt.Sprintf(format, args...), v.Protocol, suggestion}
}

// malformed is a request that names no host.
func malformed(format string, args ...any) *refusal {
	return &refusal{status: http.StatusBadRequest, code: socksFailed, text: fmt.Sprintf(format, args...)}
}

// unreachable is a host that is allowed and did not answer.
func unreachable(code byte, format string, args ...any) *refusal {
	return &refusal{status: http.StatusBadGateway, code: code, text: fmt.Sprintf(format, args...)}
}

// header is a word for the kind of a refusal. The program that many models know sends the same words.
func (r *refusal) header() string {
	switch r.reason {
	case hosts.Denied:
		return "blocked-by-denylist"
	case hosts.NotAllowed, hosts.NotAllowedLocal:
		return "blocked-by-allowlist"
	default:
		return "error"
	}
}

// sentence is what the program, and with it a model, reads.
func (r *refusal) sentence(authority string) string {
	if r.reason == "" {
		return r.text
	}
	text := fmt.Sprintf("Network access to %s was blocked: %s.", authority, r.text)
	if r.suggestion != nil {
		text += fmt.Sprintf(" A rule that allows %s over %s would permit it.", r.suggestion.Host, r.suggestion.Protocol)
	}
	return text
}

// answer tells an HTTP client: in JSON, or to CONNECT, whose clients print no body but the first line, in plain text.
func (r *refusal) answer(w http.ResponseWriter, method string, record messages.Connection) {
	if r.reason != "" {
		w.Header().Set("X-Proxy-Error", r.header())
	}
	authority := authorityOf(record)
	if method == http.MethodConnect || r.reason == "" {
		w.Header().Set("Connection", "close")
		http.Error(w, r.sentence(authority), r.status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.status)
	json.NewEncoder(w).Encode(map[string]any{
		"status": "blocked", "host": record.Host, "port": record.Port, "protocol": r.protocol, "reason": r.reason, "decision": r.decision,
		"source": r.source, "message": r.sentence(authority),
	})
}

// response is an answer to a connection that no HTTP server serves.
func (r *refusal) response(authority string) string {
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nX-Proxy-Error: %s\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n%s\n",
		r.status, http.StatusText(r.status), r.header(), r.sentence(authority))
}

func authorityOf(record messages.Connection) string {
	if record.Port == 0 {
		return record.Host
	}
	return fmt.Sprintf("%s:%d", record.Host, record.Port)
}
