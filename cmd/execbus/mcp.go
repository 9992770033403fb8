package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/execbus/execbus/internal/connections"
	"github.com/execbus/execbus/internal/keep"
	"github.com/execbus/execbus/mcp"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tools"
	"github.com/execbus/execbus/window"
)

func mcpUsage() string {
	return `Usage:
  execbus mcp [SETTING]...                 serve one client of the Model Context Protocol on standard input and output
  execbus mcp --http ADDRESS [SETTING]...  serve clients over streamable HTTP

The tools are ` + toolNames() + `.
Commands run in a sandbox. By default they can write only in the workspace, which is the server's directory, and in temporary
directories, and they cannot use the network. The settings --dir, --writable, --network and --sandbox change that. If this machine
cannot enforce the sandbox, commands are refused, and the server says at its start what is missing and which --assurance accepts less.
If a command needs an approval, the server asks through the client. If the client cannot ask, the server rejects the command.

` + settingsHelp("mcp") + `
Exit codes: 0 when the client has gone or after SIGINT, SIGTERM or SIGHUP, 1 if something failed, 2 for wrong usage or settings.

Examples:
  execbus mcp
  execbus mcp --approval untrusted --rules ./project.rules --dir ./project
  execbus mcp --http 127.0.0.1:8123 --token-file ~/.execbus-token
  execbus mcp --network --writable ~/.cache
  EXECBUS_SANDBOX=danger-full-access execbus mcp
  execbus mcp --window 127.0.0.1:8900
  claude mcp add execbus -- execbus mcp
`
}

func toolNames() string {
	var names []string
	for _, t := range tools.List(tools.Options{}) {
		names = append(names, t.Name)
	}
	return strings.Join(names, ", ")
}

// serveMCP runs "mcp".
func serveMCP(args []string, std streams) int {
	c := &config{sandbox: messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite}, output: keep.Setting{ByDefault: true}}
	rest, code, done := configure("mcp", mcpUsage(), c, args, std)
	if done {
		return code
	}
	switch {
	case len(rest) > 0:
		return misused(std, fmt.Sprintf("mcp takes no arguments; leave out %q", rest[0]), mcpUsage())
	case c.http == "" && (c.tokenFile != "" || c.noAuth):
		return misused(std, "--token-file and --no-auth need --http", mcpUsage())
	case c.http != "" && (c.detach || c.withOwner):
		return misused(std, "--detach and --with-parent cannot be used with --http", mcpUsage())
	case c.misusedWindow() != "":
		return misused(std, c.misusedWindow(), mcpUsage())
	case c.tokenFile != "" && c.noAuth:
		return misused(std, "--token-file and --no-auth cannot be used together", mcpUsage())
	}
	if err := c.settle("--dir", c.dir, std); err != nil {
		return failed(std, err)
	}
	os.Stdout = os.Stderr // output of a library must not appear between the lines of the protocol
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := c.serveMCP(ctx, std); err != nil {
		return failed(std, err)
	}
	return 0
}

// serveMCP serves until the client has gone or ctx has ended. Then it ends everything that it started.
func (c *config) serveMCP(ctx context.Context, std streams) error {
	rt, err := c.start(std)
	if err != nil {
		return err
	}
	if _, err := rt.Enforcement(ctx, c.session()); err != nil && ctx.Err() == nil {
		fmt.Fprintln(std.err, "execbus: every command will be refused:", err)
		adviseAssurance(err, std)
	}
	session := c.session()
	session.View = cmp.Or(c.view, messages.ViewText)
	session.Record.Notice = std.warn
	number, _ := build()
	server, err := mcp.NewServer(rt, mcp.Options{Session: session, SandboxSettings: sandboxFlags, AssuranceSetting: assuranceFlag,
		HideShell: c.hideShell, Detach: c.detach, Version: number})
	var closing func()
	if err == nil {
		closing, err = c.openWindow(func(o window.Options) (*window.Window, error) { return window.New(rt, o) }, std)
	}
	if err == nil && c.http != "" {
		err = c.serveHTTP(ctx, server, std)
	} else if err == nil {
		if c.withOwner {
			ctx = whileParentLives(ctx)
		}
		err = server.ServeStream(ctx, std.in, std.out)
	}
	if closing != nil {
		closing()
	}
	if ended := shutdown(rt); err == nil {
		err = ended
	}
	return err
}

// parentPause is how often the parent is checked. The kernel's own signal comes when the thread that started this process
// ends, which may be long before the parent does.
const parentPause = 250 * time.Millisecond

// whileParentLives returns a context that ends with the parent process.
func whileParentLives(ctx context.Context) context.Context {
	ctx, end := context.WithCancel(ctx)
	parent := os.Getppid()
	go func() {
		defer end()
		for os.Getppid() == parent && ctx.Err() == nil {
			select {
			case <-time.After(parentPause):
			case <-ctx.Done():
			}
		}
	}()
	return ctx
}

// Bounds on the time for the head of a request, on the idle time of a connection, on the size of the head, and on the number of
// connections, and with them of requests and streams.
const (
	headTime       = 10 * time.Second
	idleTime       = 2 * time.Minute
	maxHead        = 64 << 10
	maxConnections = 256
)

// serveHTTP serves clients over HTTP until ctx ends.
func (c *config) serveHTTP(ctx context.Context, server *mcp.Server, std streams) error {
	token, err := c.token(std)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.http)
	if err != nil {
		return err
	}
	if c.noAuth && !listener.Addr().(*net.TCPAddr).IP.IsLoopback() {
		return errors.Join(fmt.Errorf("%s is not a loopback address: without a token, everyone who can reach it could run commands", listener.Addr()), listener.Close())
	}
	fmt.Fprintf(std.out, "http://%s/mcp\n", listener.Addr())
	if c.tokenFile == "" && !c.noAuth {
		fmt.Fprintf(std.out, "Authorization: Bearer %s\n", token)
	}
	front := &http.Server{Handler: server.Handler(mcp.HTTPOptions{Token: token}), ReadHeaderTimeout: headTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHead,
		ConnContext: connections.Context}
	failed := make(chan error, 1)
	go func() { failed <- front.Serve(connections.Bound(listener, maxConnections)) }()
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	server.Close() // this answers the pending requests
	return errors.Join(err, front.Close())
}

// shortToken is the length below which a token may be guessed.
const shortToken = 16

// token returns the token that clients must send; it is empty if they need none. It warns about one that is no secret.
func (c *config) token(std streams) (string, error) {
	switch {
	case c.noAuth:
		return "", nil
	case c.tokenFile == "":
		return rand.Text(), nil
	}
	content, err := os.ReadFile(c.tokenFile)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(content))
	if token == "" {
		return "", fmt.Errorf("%s does not contain a token", c.tokenFile)
	}
	if len(token) < shortToken {
		fmt.Fprintf(std.err, "execbus: the token in %s has only %d characters and may be guessed; use %d random ones or more\n", c.tokenFile, len(token), shortToken)
	}
	if info, err := os.Stat(c.tokenFile); err == nil && info.Mode().IsRegular() && info.Mode()&0o077 != 0 {
		fmt.Fprintf(std.err, "execbus: other users may read the token in %s; change that with: chmod 600 %[1]s\n", c.tokenFile)
	}
	return token, nil
}
