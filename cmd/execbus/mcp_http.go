package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/execbus/execbus/internal/connections"
	"github.com/execbus/execbus/mcp"
)

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
