package execserver

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execbus/execbus/execserver/internal/wire"
)

func TestWebsocketsNeedTheToken(t *testing.T) {
	s := newServer(t, Options{})
	server := httptest.NewServer(s.Handler("secret"))
	defer server.Close()
	url := "ws" + strings.TrimPrefix(server.URL, "http")
	for _, test := range []struct {
		url, header string
		status      int
	}{
		{url, "", 401}, {url, "Bearer wrong", 401}, {url, "Bearer ", 401}, {url, "secret", 401}, {url + "/?token=secre", "", 401}, {url + "/?token=", "", 401},
		{url + "/?token=secret", "Bearer wrong", 401}, {url, "Bearer secret", 101}, {url, "bearer secret", 101}, {url + "/?token=secret", "", 101}, {url + "/any/path?token=secret", "", 101},
	} {
		header := http.Header{}
		if test.header != "" {
			header.Set("Authorization", test.header)
		}
		conn, response, err := wire.DialWebsocket(t.Context(), test.url, server.Client(), header, wire.MaxMessage)
		if response == nil || response.StatusCode != test.status {
			t.Errorf("%+v: got %v, %v", test, response, err)
		}
		if err == nil {
			newClient(t, conn).open("")
		}
	}
}

func TestPagesAreRefusedAndReadinessIsTold(t *testing.T) {
	s := newServer(t, Options{})
	server := httptest.NewServer(s.Handler("secret"))
	defer server.Close()
	for _, test := range []struct {
		method, path, origin, token string
		status                      int
	}{
		{"GET", "/readyz", "", "", 200}, {"GET", "/readyz", "http://evil.example", "", 403}, {"GET", "/readyz", "null", "", 403},
		{"POST", "/readyz", "", "", 401}, {"GET", "/", "", "", 401}, {"GET", "/", "http://evil.example", "secret", 403}, {"GET", "/", "", "secret", 426},
	} {
		request, err := http.NewRequestWithContext(t.Context(), test.method, server.URL+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if test.origin != "" {
			request.Header.Set("Origin", test.origin)
		}
		if test.token != "" {
			request.Header.Set("Authorization", "Bearer "+test.token)
		}
		response, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != test.status {
			t.Errorf("%+v: got %s", test, response.Status)
		}
	}
}

func TestAPeerIsItsUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := listener.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if uid, err := peer(conn); err != nil || uid != os.Getuid() {
		t.Errorf("got %d, %v", uid, err)
	}
	conn.Close()
	if uid, err := peer(conn); err == nil {
		t.Errorf("got %d of a closed connection", uid)
	}
}

func TestAClosedServerServesNobody(t *testing.T) {
	s := newServer(t, Options{})
	s.Close()
	_, there := newPair()
	if err := s.serve(t.Context(), there, false); err == nil {
		t.Error("it served")
	}
}
