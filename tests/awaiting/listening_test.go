//go:build linux

package awaiting

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// serve listens on any port, and says on which.
func serve() {
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	fmt.Println("port", port, "end")
	time.Sleep(time.Hour)
}

// servers listen on any port, and say on which.
func servers(t *testing.T) []testCase {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []testCase{
		{name: "go", argv: []string{self, serveWord}},
		{name: "python", argv: []string{"python3", "-c", "import socket, time; time.sleep(0.1); s = socket.socket(); s.bind(('', 0)); s.listen(); print('port', s.getsockname()[1], 'end', flush=True); time.sleep(1000)"}},
		{name: "python, IPv6", argv: []string{"python3", "-c", "import socket, time; s = socket.socket(socket.AF_INET6); s.bind(('::', 0)); s.listen(); print('port', s.getsockname()[1], 'end', flush=True); time.sleep(1000)"}},
		{name: "node", argv: []string{"node", "-e", "const s = require('http').createServer().listen(0, '0.0.0.0', () => console.log('port ' + s.address().port + ' end'))"}},
		{name: "a child", needs: "python3", script: `python3 -c "import socket, time; s = socket.socket(); s.bind(('', 0)); s.listen(); print('port', s.getsockname()[1], 'end', flush=True); time.sleep(1000)"; true`},
	}
}

func (d *dialogue) listeners() []ptyio.Listener {
	d.Helper()
	found, err := d.child.(ptyio.Inquirer).Listeners()
	if err != nil {
		d.Skipf("skipped: %v", err)
	}
	return found
}

// listens waits until a server has said its port, and compares that with what it is said to listen on.
func (d *dialogue) listens() {
	d.Helper()
	port := 0
	for late := time.After(patience); ; {
		found := d.listeners()
		if text := d.shown(); port == 0 && strings.Contains(text, " end") {
			if _, err := fmt.Sscanf(text[strings.Index(text, "port "):], "port %d", &port); err != nil {
				d.Fatalf("%q", text)
			}
			found = d.listeners() // at once, or when what others have just looked up is looked up again
		}
		if port != 0 && len(found) == 1 {
			if int(found[0].Address.Port()) != port || !found[0].Address.Addr().IsUnspecified() || found[0].Program == "" {
				d.Errorf("%+v, want port %d", found, port)
			}
			return
		}
		select {
		case <-late:
			d.Fatalf("%+v, and it has shown %q", found, d.shown())
		case <-d.over:
			d.Skipf("skipped: it cannot listen here: %q", d.shown())
		case <-time.After(pause):
		}
	}
}

func TestWhereProgramsListen(t *testing.T) {
	for name, way := range levels() {
		t.Run(name, func(t *testing.T) {
			spawner := newSpawner(t, way.options)
			var enclosure ptyio.Enclosure
			if way.level != "" {
				enclosure = encloseBy(t, spawner, way.level, messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, NetworkAccess: way.level == messages.AssuranceConfined})
			}
			t.Run("servers", func(t *testing.T) {
				for _, c := range servers(t) {
					t.Run(c.name, func(t *testing.T) {
						t.Parallel()
						talk(t, spawner, enclosure, c).listens()
					})
				}
			})
		})
	}
}

// Where another program listens says nothing of a command.
func TestStrangersThatListenAreNotOfTheTree(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	defer listener.Close()
	d := talk(t, newSpawner(t, sandbox.Options{}), nil, testCase{argv: []string{"cat"}})
	for range 5 {
		if found := d.listeners(); len(found) > 0 {
			t.Errorf("%+v", found)
		}
		time.Sleep(20 * time.Millisecond) // what was looked up is used again for a moment
	}
}
