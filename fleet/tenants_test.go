package fleet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/execbus/execbus/fleet/embedded"
	"github.com/execbus/execbus/messages"
)

// certificate writes one for the loopback address, signed by itself, and its key.
func certificate(t *testing.T, cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "PRIVATE KEY", Bytes: encoded}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// The sample configuration, as it is, keeps two tenants and their members apart.
func TestTenantsSeeNothingOfEachOther(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certificate(t, cert, key)
	t.Setenv("FLEET_CERT", cert)
	t.Setenv("FLEET_KEY", key)
	users := map[string]nkeys.KeyPair{}
	for _, name := range []string{"ACME_OPERATOR", "ACME_NODE", "ACME_CLIENT", "INITECH_OPERATOR"} {
		user, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		public, err := user.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		users[name] = user
		t.Setenv(name, public)
	}
	server, err := embedded.Start(embedded.Options{Dir: filepath.Join(dir, "store"), Listen: "127.0.0.1:0", Config: "tenants.conf"})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, server: server}
	t.Cleanup(server.Close)
	ctx := w.context()
	as := func(name string, options ...nats.Option) *nats.Conn {
		t.Helper()
		public, _ := users[name].PublicKey()
		nc, err := Connect(server.URL(), append(options, nats.Nkey(public, users[name].Sign), nats.RootCAs(cert))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	for _, name := range []string{"ACME_OPERATOR", "INITECH_OPERATOR"} {
		if err := Setup(ctx, as(name), Settings{}); err != nil {
			t.Fatal(err)
		}
	}
	machine := as("ACME_NODE")
	w.nodeOn(machine, Node{ID: "build-1"})
	books, err := join(ctx, machine) // a node may tidy them
	if err != nil {
		t.Fatal(err)
	}
	for key, bucket := range map[string]jetstream.KeyValue{"old": books.place, "old.question": books.ask} {
		_, err := bucket.Update(ctx, key, []byte("{}"), 0)
		if err := errors.Join(err, bucket.Purge(ctx, key), bucket.PurgeDeletes(ctx, jetstream.DeleteMarkersOlderThan(time.Nanosecond))); err != nil {
			t.Errorf("the books of %s: %v", bucket.Bucket(), err)
		}
	}
	denied := make(chan string, 16)
	acme := as("ACME_CLIENT", nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err.Error() }))
	s := w.open(acme, Placement{})
	result, err := s.Exec(ctx, shell("echo hi"))
	if err != nil || string(result.Output) != "hi\n" {
		t.Fatal(result, err)
	}
	output, gaps := followed(t, ctx, acme, s, result.Process, 0)
	if string(output) != "hi\n" || gaps != nil {
		t.Errorf("%q, %v", output, gaps)
	}
	// What a client may not: say that there is a node, make events, listen to calls.
	for _, subject := range []string{"$KV.fx_nodes.evil", eventSubject(s.ID()), outputSubject(s.ID(), result.Process), "$JS.API.STREAM.DELETE." + eventStream} {
		if err := acme.Publish(subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		expectDenied(t, denied, subject)
	}
	listening, err := acme.SubscribeSync(callSubject(s.ID()))
	if err != nil {
		t.Fatal(err)
	}
	_ = listening
	expectDenied(t, denied, callSubject(s.ID()))

	// The other tenant may do everything, in its own account.
	initech := as("INITECH_OPERATOR")
	all, err := initech.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	if err := initech.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Exec(ctx, shell("echo secret")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if len(eventsOf(t, ctx, acme, s.ID())) < 8 {
		t.Error("the tenant does not see its own events")
	}
	if err := initech.Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, err := all.Pending(); n != 0 || err != nil {
		t.Errorf("%d messages reached the other tenant, %v", n, err)
	}
	if err := all.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	if books, err := Look(ctx, initech); err != nil || len(books.Nodes)+len(books.Sessions) != 0 {
		t.Errorf("%+v, %v", books, err)
	}
	if _, err := Attach(ctx, initech, s.ID()); !errors.Is(err, messages.ErrClosed) {
		t.Errorf("attached to a session of another tenant: %v", err)
	}
	if _, err := Open(ctx, initech, Placement{}); !errors.Is(err, messages.ErrLimitReached) {
		t.Errorf("opened a session without a node: %v", err)
	}
	if nc, err := nats.Connect(server.URL(), nats.RootCAs(cert), nats.MaxReconnects(0)); err == nil {
		nc.Close()
		t.Error("connected without a key")
	}
}

// expectDenied waits until the server has refused a subject.
func expectDenied(t *testing.T, denied <-chan string, subject string) {
	t.Helper()
	select {
	case text := <-denied:
		if !containsAll(text, "ermissions", subject) {
			t.Errorf("%q does not say that %s is denied", text, subject)
		}
	case <-time.After(patience):
		t.Errorf("%s is not denied", subject)
	}
}

// A server that is reached from other machines has TLS: its URL says so, and who does not trust its certificate sends no token.
func TestATokenCrossesNoNetworkInTheClear(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certificate(t, cert, key)
	options := embedded.Options{Dir: filepath.Join(dir, "store"), Listen: "0.0.0.0:0", Token: "secret"}
	if server, err := embedded.Start(options); err == nil || !containsAll(err.Error(), "0.0.0.0:0", "without TLS") {
		t.Errorf("it listens without TLS: %v, %v", server, err)
	}
	options.Cert, options.Key = cert, key
	server, err := embedded.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	url := strings.NewReplacer("0.0.0.0", "127.0.0.1", "[::]", "127.0.0.1").Replace(server.URL())
	if !strings.HasPrefix(url, "tls://secret@127.0.0.1:") {
		t.Errorf("its URL is %s", url)
	}
	nc, err := Connect(url, nats.RootCAs(cert))
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if nc, err := Connect(url); err == nil {
		nc.Close()
		t.Error("connected to a server whose certificate nobody has signed")
	}
	if nc, err := Connect(strings.Replace(url, "secret@", "", 1), nats.RootCAs(cert)); err == nil {
		nc.Close()
		t.Error("connected without the token")
	}
	inside, err := Connect("", server.InProcess())
	if err != nil {
		t.Fatalf("in this program: %v", err)
	}
	inside.Close()
}
