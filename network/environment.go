package network

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path"
	"strings"
)

// Environment is what the variables of a command are made from.
type Environment struct {
	// Address is where the proxy listens, as the command sees it. User is the command's credential; nil means none.
	Address netip.AddrPort
	User    *url.Userinfo
	// LoopbackByProxy says that a rule lets commands reach the loopback addresses of the host (hosts.Rules.OpensLoopback), so that
	// these go to the proxy. Otherwise they are the command's own, and go past it.
	LoopbackByProxy bool
	// Connect is the command by which ssh reaches a host through the proxy in ALL_PROXY, as ssh's ProxyCommand has it, with %h and %p
	// for the host and the port; empty if there is none where the command runs.
	Connect string
}

// proxied are the variables that name a proxy for HTTP and for TLS, of programs in general and of some that have their own.
var proxied = []string{"HTTP_PROXY", "HTTPS_PROXY", "WS_PROXY", "WSS_PROXY", "http_proxy", "https_proxy", "ws_proxy", "wss_proxy",
	"NPM_CONFIG_PROXY", "NPM_CONFIG_HTTP_PROXY", "NPM_CONFIG_HTTPS_PROXY", "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY",
	"BUNDLE_HTTP_PROXY", "BUNDLE_HTTPS_PROXY", "PIP_PROXY", "DOCKER_HTTP_PROXY", "DOCKER_HTTPS_PROXY"}

// socksProxied are those whose programs make connections of any kind.
var socksProxied = []string{"ALL_PROXY", "all_proxy", "FTP_PROXY", "ftp_proxy"}

// unproxied name what goes past the proxy.
var unproxied = []string{"NO_PROXY", "no_proxy", "NPM_CONFIG_NOPROXY", "BUNDLE_NO_PROXY", "DOCKER_NO_PROXY"}

// authorities name files with the certificates that a user trusts. The proxy does not look into TLS, so they stay right.
var authorities = []string{"SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO",
	"CARGO_HTTP_CAINFO", "PIP_CERT", "NPM_CONFIG_CAFILE", "BUNDLE_SSL_CA_CERT"}

// Variables are the variables of a command that make its programs use the proxy. host is the environment of the user, in the form
// of os.Environ: the user's certificates are kept, and options of Java and ssh are added to. The user's own proxies and exceptions
// are not for a command, which reaches nothing but this proxy; Options.Upstream is where they go. A JVM prints a line about
// JAVA_TOOL_OPTIONS.
func (e Environment) Variables(host []string) map[string]string {
	users := map[string]string{}
	for _, entry := range host {
		name, value, _ := strings.Cut(entry, "=")
		users[name] = value
	}
	all := map[string]string{"NODE_USE_ENV_PROXY": "1", "ELECTRON_GET_USE_PROXY": "1"}
	set := func(names []string, value string) {
		for _, name := range names {
			all[name] = value
		}
	}
	set(proxied, e.url("http"))
	set(socksProxied, e.url("socks5h"))
	past, javaPast := "localhost,127.0.0.1,::1", "localhost|127.*|[::1]"
	if e.LoopbackByProxy {
		past, javaPast = "", ""
	}
	set(unproxied, past)
	for _, name := range authorities {
		if value := users[name]; value != "" {
			all[name] = value
		}
	}
	all["JAVA_TOOL_OPTIONS"] = strings.TrimSpace(users["JAVA_TOOL_OPTIONS"] + " " + e.java(javaPast))
	maps.Copy(all, e.ssh(users["GIT_SSH_COMMAND"]))
	return all
}

func (e Environment) url(scheme string) string {
	return (&url.URL{Scheme: scheme, User: e.User, Host: e.Address.String()}).String()
}

func (e Environment) java(past string) string {
	var options []string
	for _, scheme := range []string{"http", "https"} {
		options = append(options, fmt.Sprintf("-D%s.proxyHost=%s -D%s.proxyPort=%d", scheme, e.Address.Addr(), scheme, e.Address.Port()))
	}
	return strings.Join(options, " ") + " -Dhttp.nonProxyHosts=" + past
}

// ssh makes git's ssh connect through the proxy, unless the user has git start some other program.
func (e Environment) ssh(users string) map[string]string {
	command := users
	if command == "" {
		command = "ssh"
	}
	first, _, _ := strings.Cut(command, " ")
	if e.Connect == "" || strings.Contains(e.Connect, "'") || path.Base(first) != "ssh" {
		return nil
	}
	return map[string]string{"GIT_SSH_COMMAND": command + " -o ProxyCommand='" + e.Connect + "'"}
}
