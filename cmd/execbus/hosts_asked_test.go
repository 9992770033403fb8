package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
)

// upstream makes a server the proxy of execbus: whatever is reached through it is the page. The environment has a script that fetches
// from a host of the public internet, which nobody connects to.
func upstream(t *testing.T) {
	t.Helper()
	if probed := sandbox.Probe(); probed.Level != messages.AssuranceIsolated {
		t.Skipf("skipped: commands are %s here: %+v", probed.Level, probed.Mechanisms)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "the page of %s\n", r.Host) }))
	t.Cleanup(server.Close)
	for _, name := range []string{"http_proxy", "https_proxy", "all_proxy", "no_proxy"} {
		t.Setenv(name, "")
		t.Setenv(strings.ToUpper(name), "")
	}
	t.Setenv("HTTP_PROXY", server.URL)
	t.Setenv("FETCH", `credential=${http_proxy#http://}; proxy=${http_proxy##*@}
		for host in "$@"; do
			exec 3<>"/dev/tcp/${proxy%:*}/${proxy##*:}"
			printf 'GET http://%s/ HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Basic %s\r\nConnection: close\r\n\r\n' "$host" "$host" "$(printf %s "${credential%@*}" | base64 -w0)" >&3
			cat <&3
		done; echo "exit $((6*7))"`)
}

const publicHosts = "93.184.216.34 93.184.216.34 93.184.216.35"

func TestRunAsksAboutHosts(t *testing.T) {
	upstream(t)
	s := sit(t, `trap : INT; run --network=ask --assurance isolated -- bash -c "$FETCH" fetch `+publicHosts)
	asked := s.expect(`(?s)Let a running command talk to this host\?.*> $`)
	for _, fact := range []string{"93.184.216.34:80 (http)\r\n", "It is plain text", "Command: bash -c", "Reason: no rule names it", "A rule would be: allow 93.184.216.34:80 (http)\r\n",
		"  y  Allow it to this command, until it ends", "  p  Allow it to every command from now on", "  n  Refuse it to this command", "  x  Refuse the connection, end the command"} {
		if !strings.Contains(asked, fact) {
			t.Errorf("%q is not in %q", fact, asked)
		}
	}
	s.answer("y")
	between := s.expect(`(?s)Let a running command talk to this host\?.*> $`)
	s.answer("n")
	after := s.expect(`(?s)403 Forbidden.*93\.184\.216\.35:80 was blocked: rejected by user.*exit 42\r\n`)
	// A question may come before the last of the output that was printed before it.
	if strings.Count(between+after, "the page of 93.184.216.34") != 2 || !strings.Contains(between, "93.184.216.35:80 (http)") {
		t.Errorf("%q, and after the answer %q", between, after)
	}
	s.expect(`ended with 0\.`)
	s.restored()
	// Ctrl-C ends the command.
	s = sit(t, `trap : INT; run --network=ask --assurance isolated -- bash -c "$FETCH" fetch `+publicHosts)
	s.expect(`(?s)Let a running command talk to this host\?.*> $`)
	s.answer("\x03")
	if after = s.expect(`ended with [0-9]+\.`); strings.Contains(after, "exit 42") || strings.HasSuffix(after, "ended with 0.") {
		t.Errorf("%q", after)
	}
	s.restored()
}

// A rule goes into the user's rule file, and holds for the next run.
func TestRunRemembersAHostAsARule(t *testing.T) {
	upstream(t)
	s := sit(t, `run --network=ask --assurance isolated -- bash -c "$FETCH" fetch 93.184.216.34; run --network=ask --assurance isolated -- bash -c "$FETCH" fetch 93.184.216.34; find "$HOME" -name '*.rules' -exec cat {} +`)
	s.expect(`(?s)  p  Allow it.*> $`)
	s.answer("p")
	if rest := s.expect(`ended with 0\.`); strings.Count(rest, "the page of") != 2 || !strings.Contains(rest, `network_rule(host="93.184.216.34:80", protocol="http", decision="allow")`) {
		t.Errorf("%q", rest)
	}
}

func TestHostsAreAskedAboutByEverySource(t *testing.T) {
	for name, c := range map[string]struct{ file, variable, flag string }{
		"the file": {"network = \"ask\"", "", "--tty"}, "the variable": {"network = false", "ask", "--tty"}, "the flag": {"network = true", "true", "--network=ask"},
	} {
		home(t, c.file)
		t.Setenv("EXECBUS_NETWORK", c.variable)
		got, code, wrong := configured(t, "run", c.flag, "--allow-host", "example.com")
		if code != 0 || got.sandbox.NetworkAccess || got.sandbox.Network == nil || got.sandbox.Network.Default != messages.HostsAsked || len(got.sandbox.Network.Hosts) != 1 {
			t.Errorf("%s: %+v, %s", name, got, wrong)
		}
	}
	home(t, "network = \"ask\"")
	t.Setenv("EXECBUS_NETWORK", "")
	if got, code, _ := configured(t, "run", "--network"); code != 0 || !got.sandbox.NetworkAccess || got.sandbox.Network != nil {
		t.Errorf("a flag over the file: %+v", got)
	}
	if _, code, wrong := configured(t, "serve"); code != exitMisused || !strings.Contains(wrong, "serve can ask nobody about hosts") {
		t.Errorf("serve: %d, %s", code, wrong)
	}
}

// The client of a server is asked by the call that waits for the command, whichever that is.
func TestMCPAsksAboutHosts(t *testing.T) {
	upstream(t)
	r := launch(t, "mcp", "--network=ask", "--assurance=isolated", "--no-login-shell")
	r.send(strings.Replace(hello, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1))
	r.answer("1")
	fetch := func(host, then string) string { return "set -- " + host + "; " + os.Getenv("FETCH") + then }
	tool := func(id int, name string, arguments map[string]any) {
		encoded, err := json.Marshal(arguments)
		if err != nil {
			t.Fatal(err)
		}
		r.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, name, encoded))
	}
	reply := func(host, decision string) {
		t.Helper()
		for {
			var m struct {
				ID     json.RawMessage
				Method string
				Params struct{ Message string }
			}
			if line := r.line(); json.Unmarshal([]byte(line), &m) != nil || m.Method == "" && string(m.ID) != "6" {
				t.Fatalf("that is no question: %s", line)
			} else if m.Method != "elicitation/create" {
				continue
			}
			if !strings.Contains(m.Params.Message, "Let a running command talk to this host?\n\n"+host+":80 (http)\n") {
				t.Errorf("%s", m.Params.Message)
			}
			r.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"decision":%q}}}`, m.ID, decision))
			return
		}
	}
	tool(2, "exec_command", map[string]any{"cmd": fetch("93.184.216.34", ""), "shell": "bash"})
	reply("93.184.216.34", "approved")
	if answer := r.answer("2"); !strings.Contains(answer, "the page of 93.184.216.34") {
		t.Error(answer)
	}
	tool(3, "exec_command", map[string]any{"cmd": "echo ready; read; " + fetch("93.184.216.35", "; until [ -e go ]; do sleep 0.01; done; "+fetch("93.184.216.36", "; read")), "shell": "bash",
		"tty": true, "until": map[string]any{"pattern": "ready"}, "yield_time_ms": 60000})
	answer := r.answer("3")
	found := regexp.MustCompile(`"session_id":([0-9]+)`).FindStringSubmatch(answer)
	if found == nil {
		t.Fatal(answer)
	}
	id, _ := strconv.Atoi(found[1])
	tool(4, "write_stdin", map[string]any{"session_id": id, "chars": "\n", "until": map[string]any{"pattern": "exit 42"}, "yield_time_ms": 60000})
	reply("93.184.216.35", "denied")
	if answer := r.answer("4"); !strings.Contains(answer, "rejected by user") || !strings.Contains(answer, "403 Forbidden") {
		t.Error(answer)
	}
	tool(5, "wait_processes", map[string]any{"processes": []any{map[string]any{"session_id": id, "until": map[string]any{"pattern": "the page of 93.184.216.36"}}}, "yield_time_ms": 60000})
	tool(6, "exec_command", map[string]any{"cmd": "touch go"}) // it begins when the wait has begun
	reply("93.184.216.36", "approved_for_session")
	if answer := r.answer("5"); !strings.Contains(answer, "the page of") && !strings.Contains(answer, "pattern") {
		t.Error(answer)
	}
}
