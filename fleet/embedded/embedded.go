// Package embedded is a NATS server inside of this program, for a fleet of one machine and for tests.
//
//	server, err := embedded.Start(embedded.Options{Dir: dir})
//	if err != nil {
//		return err
//	}
//	defer server.Close()
//	nc, err := fleet.Connect("", server.InProcess())
//
// What you must not assume: that other machines reach it. It listens only if Options.Listen names an address. Nor that it is safe to
// give away: a client that connects may run commands on all nodes of its account.
package embedded

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Options of a server.
type Options struct {
	// Dir is where streams and books are kept; a server that starts with the same directory has them again.
	Dir string
	// Listen is an address, "127.0.0.1:4222"; empty means that only this program can connect.
	Listen string
	// Token is what clients must know that connect to Listen. Without a Config one is needed: anyone who can connect can run commands.
	Token string
	// Cert and Key are the files of a certificate and its key, for TLS. A server with a Token that listens on more than the loopback
	// interface needs them: the token would cross the network in the clear.
	Cert, Key string
	// Config is a configuration file of nats-server, for accounts, permissions and TLS. Dir and Listen win over it.
	Config string
}

// readyTime is how long a server may take to start.
const readyTime = 10 * time.Second

// MaxPayload bounds a message, in bytes: answers larger than that come in several.
const MaxPayload = 4 << 20

// Server is a running server.
type Server struct {
	server *server.Server
	secret string
	tls    bool
}

// Start starts a server and returns when it can be used.
func Start(options Options) (*Server, error) {
	o := &server.Options{MaxPayload: MaxPayload}
	if options.Config != "" {
		var err error
		if o, err = server.ProcessConfigFile(options.Config); err != nil {
			return nil, err
		}
	}
	o.JetStream, o.StoreDir, o.NoSigs, o.NoLog, o.DontListen = true, options.Dir, true, true, options.Listen == ""
	if options.Listen != "" {
		if options.Token == "" && options.Config == "" {
			return nil, errors.New("a server that listens needs a token or a configuration with accounts: anyone who can connect can run commands")
		}
		if options.Token != "" {
			o.Authorization = options.Token
		}
		host, port, err := net.SplitHostPort(options.Listen)
		if err != nil {
			return nil, err
		}
		if o.Port, err = strconv.Atoi(port); err != nil {
			return nil, err
		}
		switch ip := net.ParseIP(host); {
		case options.Cert != "" || options.Key != "":
			certificate, err := tls.LoadX509KeyPair(options.Cert, options.Key)
			if err != nil {
				return nil, fmt.Errorf("the certificate cannot be used: %w", err)
			}
			o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
			o.TLSTimeout = readyTime.Seconds()
		case options.Config == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()):
			return nil, fmt.Errorf("%s can be reached from other machines, and without TLS they would read the token, with which anyone can run commands: "+
				"name a certificate and its key, or listen on 127.0.0.1", options.Listen)
		}
		if o.Host = host; o.Port == 0 {
			o.Port = server.RANDOM_PORT
		}
	}
	s, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(readyTime) {
		s.Shutdown()
		return nil, errors.New("the NATS server did not start within " + readyTime.String())
	}
	return &Server{s, options.Token, options.Cert != ""}, nil
}

// InProcess is the option with which a client in this program connects.
func (s *Server) InProcess() nats.Option {
	return func(o *nats.Options) error {
		o.InProcessServer, o.Token = s.server, s.secret
		return nil
	}
}

// URL is where other programs connect, with the token; empty if the server does not listen.
func (s *Server) URL() string {
	if s.server.Addr() == nil {
		return ""
	}
	scheme := "nats://"
	if s.tls {
		scheme = "tls://"
	}
	if s.secret != "" {
		scheme += s.secret + "@"
	}
	return scheme + s.server.Addr().String()
}

// Close stops the server and waits until it has stopped.
func (s *Server) Close() {
	s.server.Shutdown()
	s.server.WaitForShutdown()
}
