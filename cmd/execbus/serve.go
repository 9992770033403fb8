package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/execbus/execbus/execserver"
	"github.com/execbus/execbus/internal/keep"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
	"github.com/execbus/execbus/spool"
	"github.com/execbus/execbus/window"
)

func serveUsage() string {
	return `Usage:
  execbus serve [--listen ws://IP:PORT] [SETTING]...   serve clients over websockets; the URL is the first line of standard output
  execbus serve --listen unix:///PATH [SETTING]...     serve clients of the same user over a unix socket
  execbus serve --listen stdio [SETTING]...            serve one client on standard input and output

Runs processes for other programs and other machines, by the exec-server protocol. Package execserver explains the protocol, and
execserver/client is a client in Go. Clients decide which commands run, and whether a person must approve them. A client of a
socket may disconnect and come back. If it does not come back within 30 s, its processes are ended. GET /readyz at the address of
the websockets is answered with 200. A client that does not acknowledge output can read all of it with process/read, within the quota,
until its processes are forgotten, which is 30 s after their ends. What cannot be kept is reported on standard error.

Clients also decide what confines each command. A sandbox that a client asks for is enforced, or the start is refused. A command for
which it asks for none has all rights of the server's user, because that is how clients say that their user has chosen full access,
or has approved the command. With --sandbox the server confines such commands itself, and enforces a client's sandbox only if it
certainly allows no more: the same policy in the same directory, or read-only.

With --window people see on a page what runs for which client, and what it prints, and can end it. Input stays the client's.

` + settingsHelp("serve") + `
Exit codes: 0 when the client of standard input has gone or after SIGINT, SIGTERM or SIGHUP, 1 if something failed, 2 for wrong
usage or settings. Before it exits, serve ends every process of every client: it asks their trees with SIGTERM and kills what is left
after 500 ms. Further signals change nothing. Clients are disconnected first and learn nothing of these ends.

Examples:
  execbus serve
  execbus serve --listen ws://0.0.0.0:7000 --token-file ~/.execbus-token --tls-cert server.pem --tls-key server.key
  execbus serve --listen ws://0.0.0.0:7000 --tls-cert server.pem --tls-key server.key --client-ca clients.pem
  execbus serve --listen unix:///run/user/1000/execbus --sandbox workspace-write --dir ~/project
  execbus serve --window 127.0.0.1:8900 --window-viewers
  ssh build.example execbus serve --listen stdio
`
}

// serve runs "serve".
func serve(args []string, std streams) int {
	c := &config{sandbox: messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess}, listen: execserver.DefaultListen, output: keep.Setting{ByDefault: true}}
	rest, code, done := configure("serve", serveUsage(), c, args, std)
	if done {
		return code
	}
	tcp := strings.HasPrefix(c.listen, "ws:")
	switch {
	case len(rest) > 0:
		return misused(std, fmt.Sprintf("serve takes no argument, and %q is one", rest[0]), serveUsage())
	case !tcp && (c.tokenFile != "" || c.noAuth || c.tlsCert != "" || c.tlsKey != "" || c.clientCA != ""):
		return misused(std, "--token-file, --no-auth, --tls-cert, --tls-key and --client-ca go with --listen ws://…", serveUsage())
	case c.noAuth && (c.tokenFile != "" || c.clientCA != ""):
		return misused(std, "--no-auth contradicts --token-file and --client-ca", serveUsage())
	case c.misusedWindow() != "":
		return misused(std, c.misusedWindow(), serveUsage())
	case (c.tlsCert == "") != (c.tlsKey == "") || c.clientCA != "" && c.tlsCert == "":
		return misused(std, "--tls-cert and --tls-key go together, and --client-ca with them", serveUsage())
	}
	if err := c.settle("--dir", c.dir, std); err != nil {
		return failed(std, err)
	}
	os.Stdout = os.Stderr // the output of a library must not appear between the lines of the protocol
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := c.serve(ctx, std); err != nil {
		code := failed(std, err)
		adviseAssurance(err, std)
		return code
	}
	return 0
}

// serve serves until the client of a stream has gone or ctx has ended. Then it ends everything that it started.
func (c *config) serve(ctx context.Context, std streams) error {
	spawner, err := sandbox.New(sandbox.Options{Notice: func(text string) { fmt.Fprintln(std.err, "execbus:", text) }})
	if err != nil {
		return err
	}
	err = c.serveWith(ctx, spawner, std)
	return errors.Join(err, spawner.Close())
}

func (c *config) serveWith(ctx context.Context, spawner ptyio.Spawner, std streams) error {
	options := execserver.Options{Roots: c.fileRoots, MaxProcesses: c.maxProcesses,
		Logger: slog.New(slog.NewTextHandler(std.err, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if c.sandbox.Confined() {
		options.Confinement = &ptyio.Confinement{Policy: c.sandbox, Dir: c.dir, TempDir: os.Getenv("TMPDIR"), Least: c.assurance}
	}
	server, err := keep.Start(c.output, std.warn, func(dir string) (*execserver.Server, error) {
		options.Spool = spool.Options{Dir: dir, PerProcess: c.output.PerProcess, Total: c.output.Total}
		return execserver.NewServer(spawner, options)
	})
	if err != nil {
		return err
	}
	defer server.Close()
	closing, err := c.openWindow(func(o window.Options) (*window.Window, error) { return window.Of(server, o), nil }, std)
	if err != nil {
		return err
	}
	defer closing()
	if c.listen == "stdio" || c.listen == "stdio://" {
		return server.ServeStream(ctx, std.in, std.out)
	}
	return c.serveSocket(ctx, server, std)
}

func (c *config) serveSocket(ctx context.Context, server *execserver.Server, std streams) error {
	var options execserver.ListenOptions
	if strings.HasPrefix(c.listen, "ws:") {
		var err error
		if options, err = c.listenOptions(std); err != nil {
			return err
		}
	}
	listener, err := server.Listen(c.listen, options)
	if err != nil {
		return err
	}
	location := listener.URL()
	if options.Token != "" && c.tokenFile == "" {
		location += "/?token=" + url.QueryEscape(options.Token)
	}
	if _, err := fmt.Fprintln(std.out, location); err != nil {
		return errors.Join(err, listener.Close())
	}
	return listener.Serve(ctx)
}

// listenOptions returns the options that say which clients are admitted over TCP: clients with the token, and with --client-ca
// clients with a certificate.
func (c *config) listenOptions(std streams) (options execserver.ListenOptions, err error) {
	if c.tokenFile != "" || c.clientCA == "" {
		if options.Token, err = c.token(std); err != nil {
			return options, err
		}
	}
	if c.tlsCert == "" {
		return options, nil
	}
	own, err := tls.LoadX509KeyPair(c.tlsCert, c.tlsKey)
	if err != nil {
		return options, err
	}
	options.TLS = &tls.Config{Certificates: []tls.Certificate{own}}
	if c.clientCA == "" {
		return options, nil
	}
	text, err := os.ReadFile(c.clientCA)
	if err != nil {
		return options, err
	}
	options.TLS.ClientCAs, options.TLS.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !options.TLS.ClientCAs.AppendCertsFromPEM(text) {
		return options, fmt.Errorf("%s does not contain a certificate", c.clientCA)
	}
	return options, nil
}
