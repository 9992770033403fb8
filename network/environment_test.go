package network

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func TestVariablesForPrograms(t *testing.T) {
	e := Environment{Address: netip.MustParseAddrPort("127.0.0.1:3128"), User: url.UserPassword("1234", "abc"), Program: "/opt/my bin/execbus"}
	got := e.Variables([]string{"NO_PROXY=corp.example", "HTTP_PROXY=http://proxy.example:8080", "SSL_CERT_FILE=/etc/corp.pem", "CURL_CA_BUNDLE=", "JAVA_TOOL_OPTIONS=-Xmx1g",
		"GIT_SSH_COMMAND=ssh -i /home/me/key", "HOME=/home/me"})
	for name, want := range map[string]string{
		"HTTP_PROXY": "http://1234:abc@127.0.0.1:3128", "https_proxy": "http://1234:abc@127.0.0.1:3128", "WSS_PROXY": "http://1234:abc@127.0.0.1:3128",
		"NPM_CONFIG_HTTPS_PROXY": "http://1234:abc@127.0.0.1:3128", "PIP_PROXY": "http://1234:abc@127.0.0.1:3128",
		"ALL_PROXY": "socks5h://1234:abc@127.0.0.1:3128", "ftp_proxy": "socks5h://1234:abc@127.0.0.1:3128",
		"NO_PROXY": "localhost,127.0.0.1,::1", "no_proxy": "localhost,127.0.0.1,::1", "NPM_CONFIG_NOPROXY": "localhost,127.0.0.1,::1",
		"NODE_USE_ENV_PROXY": "1", "GIT_HTTP_PROXY_AUTHMETHOD": "basic", "SSL_CERT_FILE": "/etc/corp.pem",
		"JAVA_TOOL_OPTIONS": "-Xmx1g -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=3128 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=3128 -Dhttp.nonProxyHosts=localhost|127.*|[::1]",
		"GIT_SSH_COMMAND":   `ssh -i /home/me/key -o ProxyCommand='"/opt/my bin/execbus" connect %h %p'`,
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	for _, name := range []string{"HOME", "CURL_CA_BUNDLE"} {
		if value, set := got[name]; set {
			t.Errorf("%s is %q", name, value)
		}
	}
	for name, value := range got {
		if strings.Contains(value, "corp.example") || strings.Contains(value, "8080") {
			t.Errorf("%s is %q", name, value)
		}
	}
}

func TestVariablesWhereLess(t *testing.T) {
	e := Environment{Address: netip.MustParseAddrPort("127.0.0.1:3128"), LoopbackByProxy: true}
	got := e.Variables(nil)
	for name, want := range map[string]string{"HTTPS_PROXY": "http://127.0.0.1:3128", "NO_PROXY": "", "no_proxy": ""} {
		if value, set := got[name]; !set || value != want {
			t.Errorf("%s is %q, want %q", name, value, want)
		}
	}
	if !strings.HasSuffix(got["JAVA_TOOL_OPTIONS"], "-Dhttp.nonProxyHosts=") {
		t.Error(got["JAVA_TOOL_OPTIONS"])
	}
}

// git gets a program for ssh only where that can be written, and where it starts ssh.
func TestGitGetsSSHThroughTheProxy(t *testing.T) {
	const connects = ` -o ProxyCommand='"/opt/execbus" connect %h %p'`
	for _, c := range []struct {
		program string
		users   []string
		want    string
	}{
		{program: "/opt/execbus", want: "ssh" + connects},
		{program: "/opt/execbus", users: []string{"GIT_SSH_COMMAND=ssh -v"}, want: "ssh -v" + connects},
		{program: "/opt/execbus", users: []string{"GIT_SSH_COMMAND=plink"}},
		{program: "/opt/execbus", users: []string{"GIT_SSH=/usr/bin/plink"}},
		{program: "/opt/execbus", users: []string{"GIT_SSH=/usr/bin/ssh"}, want: "/usr/bin/ssh" + connects},
		{program: "/opt/execbus", users: []string{"GIT_SSH=/opt/my /ssh"}},
		{program: "/opt/execbus", users: []string{"GIT_SSH=plink", "GIT_SSH_COMMAND=ssh"}, want: "ssh" + connects},
		{program: "/opt/execbus", users: []string{"GIT_SSH_COMMAND=plink", "GIT_SSH_COMMAND=ssh"}, want: "ssh" + connects},
		{}, {program: "execbus"}, {program: "/opt/it's/execbus"}, {program: `/opt/"/execbus`}, {program: "/opt/$HOME/execbus"},
		{program: "/opt/%h/execbus"}, {program: "/opt/`id`/execbus"}, {program: `/opt/\/execbus`}, {program: "/opt/execbus\n"},
	} {
		if got := (Environment{Program: c.program}).Variables(c.users)["GIT_SSH_COMMAND"]; got != c.want {
			t.Errorf("%q, %q: %q, want %q", c.program, c.users, got, c.want)
		}
	}
}
