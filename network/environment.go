package network

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path"
	"regexp"
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
	// Program is the path of the program execbus where the command runs, by which git's ssh reaches a host through the proxy; empty
	// if there is none. A path with other characters than letters, digits, spaces and /._+@- is not used.
	Program string
}

// proxied are the variables that name a proxy for HTTP and for TLS, of programs in general and of some that have their own.
var proxied = []string{"HTTP_PROXY", "HTTPS_PROXY", "WS_PROXY", "WSS_PROXY", "http_proxy", "https_proxy", "ws_proxy", "wss_proxy",
	"NPM_CONFIG_PROXY", "NPM_CONFIG_HTTPS_PROXY", "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY",
	"BUNDLE_HTTP_PROXY", "BUNDLE_HTTPS_PROXY", "PIP_PROXY", "DOCKER_HTTP_PROXY", "DOCKER_HTTPS_PROXY"}

// socksProxied are those whose programs make connections of any kind.
var socksProxied = []string{"ALL_PROXY", "all_proxy", "FTP_PROXY", "ftp_proxy"}

// unproxied name what goes past the proxy.
var unproxied = []string{"NO_PROXY", "no_proxy", "NPM_CONFIG_NOPROXY", "BUNDLE_NO_PROXY", "DOCKER_NO_PROXY"}

// authorities name files with the certificates that a user trusts. The proxy does not look into TLS, so they stay right.
var authorities = []string{"SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO",
	"CARGO_HTTP_CAINFO", "PIP_CERT", "NPM_CONFIG_CAFILE", "BUNDLE_SSL_CA_CERT"}

// Variables are the variables of a command that make its programs use the proxy. users is what the user has set, in the form of
// os.Environ, of which the last entry with a name counts: certificates are kept, and options of Java and ssh are added to. The
// user's own proxies and exceptions are not for a command, which reaches nothing but this proxy; Options.Upstream is where they go.
//
// A JVM prints a line about JAVA_TOOL_OPTIONS on its standard error, and shows no credential. GIT_SSH_COMMAND takes the place of
// core.sshCommand in git's configuration; it is left alone where git starts some other program than ssh. ssh itself reads no
// variable: ssh -o ProxyCommand="execbus connect %h %p" does by hand what git does.
func (e Environment) Variables(users []string) map[string]string {
	has := map[string]string{}
	for _, entry := range users {
		name, value, _ := strings.Cut(entry, "=")
		has[name] = value
	}
	// By default git shows a credential only to a proxy that asks for one.
	all := map[string]string{"NODE_USE_ENV_PROXY": "1", "ELECTRON_GET_USE_PROXY": "1", "GIT_HTTP_PROXY_AUTHMETHOD": "basic"}
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
		if value := has[name]; value != "" {
			all[name] = value
		}
	}
	all["JAVA_TOOL_OPTIONS"] = strings.TrimSpace(has["JAVA_TOOL_OPTIONS"] + " " + e.java(javaPast))
	maps.Copy(all, e.ssh(has))
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

// safe matches a path that means the same in a shell's double quotes, and in ssh's configuration.
var safe = regexp.MustCompile(`^/[A-Za-z0-9/._+@ -]*$`)

// ssh makes git's ssh connect through the proxy, unless the user has git start some other program.
func (e Environment) ssh(has map[string]string) map[string]string {
	command := cmp.Or(has["GIT_SSH_COMMAND"], has["GIT_SSH"], "ssh")
	if has["GIT_SSH_COMMAND"] == "" && strings.Contains(command, " ") { // GIT_SSH is a path, not a command
		return nil
	}
	first, _, _ := strings.Cut(command, " ")
	if !safe.MatchString(e.Program) || path.Base(first) != "ssh" {
		return nil
	}
	return map[string]string{"GIT_SSH_COMMAND": command + ` -o ProxyCommand='"` + e.Program + `" connect %h %p'`}
}
