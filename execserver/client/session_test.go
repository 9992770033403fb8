package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/execserver"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// listening is a real server with the platform's own spawner, at an address.
func listening(t *testing.T, address string) *execserver.Listener {
	t.Helper()
	machine, err := sandbox.New(sandbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server, err := execserver.NewServer(machine, execserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := server.Listen(address, execserver.ListenOptions{Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- listener.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		server.Close()
		if err := errors.Join(within(t, "the end of the server", served), machine.Close()); err != nil {
			t.Error(err)
		}
	})
	return listener
}

// sessionAt opens a session whose commands run on a server.
func sessionAt(t *testing.T, address string, options execbus.SessionOptions) *execbus.Session {
	t.Helper()
	return sessionWith(t, address, execbus.Options{}, options)
}

// sessionWith does so in a runtime with options.
func sessionWith(t *testing.T, address string, host execbus.Options, options execbus.SessionOptions) *execbus.Session {
	t.Helper()
	remote, err := Dial(t.Context(), address, Options{Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	host.Spawner = remote
	runtime, err := execbus.Start(host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := runtime.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	session, err := runtime.OpenSession(options)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func exec(t *testing.T, session *execbus.Session, command messages.ExecCommand) (*messages.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	command.Yield = new(messages.MaxYield)
	return session.Exec(ctx, command)
}

func TestASandboxIsEnforcedOnTheServer(t *testing.T) {
	if probed := sandbox.Probe(); probed.Level == messages.AssuranceNone {
		t.Skipf("skipped: nothing can be confined here: %+v", probed.Mechanisms)
	}
	for _, kind := range []string{"websocket", "unix socket"} {
		t.Run(kind, func(t *testing.T) {
			address := execserver.DefaultListen
			if kind != "websocket" {
				address = "unix://" + filepath.Join(t.TempDir(), "socket")
			}
			dir, outside := t.TempDir(), t.TempDir()
			session := sessionAt(t, listening(t, address).URL(), execbus.SessionOptions{Dir: dir, LeastAssurance: messages.AssuranceConfined,
				Approval: messages.ApprovalPolicy{Mode: messages.ApproveNever},
				Sandbox:  &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, ExcludeSlashTmp: true, ExcludeTmpdirEnvVar: true}})
			events, err := session.Events(execbus.Watch{Kinds: []messages.EventKind{messages.KindExecStarted}})
			if err != nil {
				t.Fatal(err)
			}
			defer events.Close()
			result, err := exec(t, session, messages.ExecCommand{Login: new(false), Script: "echo in > in; echo out > " + outside + "/out"})
			if err != nil {
				t.Fatal(err)
			}
			_, in := os.Stat(dir + "/in")
			_, out := os.Stat(outside + "/out")
			if in != nil || out == nil || result.Status == messages.StatusExited(0) {
				t.Errorf("in: %v, out: %v, %+v", in, out, result)
			}
			event, err := events.Next(t.Context())
			if started, is := event.(messages.ExecStarted); err != nil || !is || started.Enforced == nil || !started.Enforced.Level.AtLeast(messages.AssuranceConfined) {
				t.Errorf("%+v, %v", event, err)
			}
		})
	}
}

// A server keeps the newest MiB, and drops nothing that its client has not got. So the client's files have all, to the byte.
func TestAllOutputOfAServerIsInTheClientsFiles(t *testing.T) {
	listener := listening(t, "ws://127.0.0.1:0")
	dir := filepath.Join(t.TempDir(), "output")
	session := sessionWith(t, listener.URL(), execbus.Options{Spool: execbus.SpoolOptions{Dir: dir}}, execbus.SessionOptions{Dir: "/"})
	result, err := exec(t, session, messages.ExecCommand{Script: "seq 1000000 1600000; echo FAIL; seq 1600001 2200000"})
	for err == nil && result.Running {
		result, err = session.Poll(t.Context(), messages.Poll{Process: result.Process, NoTimeout: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	const rows, size = 600_001, 8 // before FAIL, and of each
	found, err := session.Read(t.Context(), messages.ReadOutput{Process: result.Process, Grep: &messages.Grep{Pattern: "^FAIL"}})
	if err != nil || len(found.Lines) != 1 || found.Missed != 0 || found.Lines[0].Offset != rows*size || found.Lines[0].Number != rows+1 {
		t.Fatalf("%+v, %v", found, err)
	}
	want := bytes.NewBuffer(nil)
	for n := 1_000_000; n <= 2_200_000; n++ {
		if fmt.Fprintln(want, n); n == 1_600_000 {
			want.WriteString("FAIL\n")
		}
	}
	for at := int64(0); at < int64(want.Len()); {
		page, err := session.Read(t.Context(), messages.ReadOutput{Process: result.Process, Offset: &at})
		if err != nil || page.Missed != 0 || len(page.Chunks) == 0 {
			t.Fatalf("at %d: %+v, %v", at, page, err)
		}
		for _, c := range page.Chunks {
			if !bytes.HasPrefix(want.Bytes()[at:], c.Bytes) {
				t.Fatalf("something else is at %d", at)
			}
			at += int64(len(c.Bytes))
		}
	}
}

func TestWhoIsNotLetIn(t *testing.T) {
	listener := listening(t, execserver.DefaultListen)
	address := listener.URL()
	for token, says := range map[string]string{"": "401", "wrong": "401"} {
		if _, err := Dial(t.Context(), address, Options{Token: token}); !errors.Is(err, messages.ErrRuntimeFailure) || !strings.Contains(err.Error(), says) {
			t.Errorf("with the token %q: %v", token, err)
		}
	}
}

// A URL with the token admits its client, and no error contains the token.
func TestTheTokenOfAURLIsKeptToItself(t *testing.T) {
	listener := listening(t, execserver.DefaultListen)
	remote, err := Dial(t.Context(), listener.URL()+"/?token=secret", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Close(); err != nil {
		t.Error(err)
	}
	for _, address := range []string{listener.URL() + "/?token=confidential", "ws://127.0.0.1:1/?token=confidential", "ws:///?token=confidential",
		"http://x/?token=confidential", "ws://\x00?token=confidential"} {
		if _, err := Dial(t.Context(), address, Options{}); err == nil || strings.Contains(err.Error(), "confidential") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// The plan is made from the programs of the server's machine.
func TestAProgramThatTheServerDoesNotHave(t *testing.T) {
	session := sessionAt(t, listening(t, execserver.DefaultListen).URL(), execbus.SessionOptions{Dir: "/",
		Approval: messages.ApprovalPolicy{Mode: messages.ApproveUntrusted}})
	if _, err := exec(t, session, messages.ExecCommand{Argv: []string{"no-such-program-anywhere"}}); !errors.Is(err, messages.ErrNoSuchProgram) && !errors.Is(err, messages.ErrRejected) {
		t.Error(err)
	}
	if result, err := exec(t, session, messages.ExecCommand{Argv: []string{"ls", "/"}}); err != nil || result.Status != messages.StatusExited(0) {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestAnEncryptedWay(t *testing.T) {
	web := httptest.NewTLSServer(newServer(t).Handler("secret"))
	t.Cleanup(web.Close)
	address := "wss://" + web.Listener.Addr().String()
	if _, err := Dial(t.Context(), address, Options{Token: "secret"}); !errors.Is(err, messages.ErrRuntimeFailure) {
		t.Errorf("a certificate that no authority has signed: %v", err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(web.Certificate())
	remote, err := Dial(t.Context(), address, Options{Token: "secret", TLS: &tls.Config{RootCAs: trusted}})
	if err != nil {
		t.Fatal(err)
	}
	if is, err := remote.Resolver().IsDir(t.Context(), "/"); err != nil || !is {
		t.Errorf("%v, %v", is, err)
	}
	if err := remote.Close(); err != nil {
		t.Error(err)
	}
}

// Streams cannot be replaced: their end is the end of the session.
func TestStreams(t *testing.T) {
	server := newServer(t)
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	served := make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() { served <- server.ServeStream(ctx, in, out) }()
	remote, err := Connect(t.Context(), fromServer, toServer, Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := newLog()
	if _, err = remote.Spawn(t.Context(), ptyio.Launch{Argv: []string{"sh", "-c", "echo up; exec sleep 1000"}, Env: []string{"PATH=/bin:/usr/bin"}, Dir: "/", Events: l.receive}); err != nil {
		t.Fatal(err)
	}
	l.awaitText(t, "up\n")
	stop()
	if err := within(t, "the end of the server's side", served); err != nil {
		t.Error(err)
	}
	_, _ = in.Close(), out.Close()
	if exited, tree := l.ended(t); exited.Lost == nil || len(tree.Survivors) != 1 {
		t.Errorf("%+v, %+v", exited, tree)
	}
	if err := remote.Close(); err != nil {
		t.Error(err)
	}
}
