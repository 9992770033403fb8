package execbus_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"os"
	osexec "os/exec"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// hostOfTunnel makes this program a host whose command has a tunnel to the server that it names.
const hostOfTunnel = "EXECBUS_TEST_TUNNEL_TO"

// A host is killed while a command has a tunnel: the tunnel ends, and the command.
func TestAHostThatIsKilledLeavesNoTunnel(t *testing.T) {
	if server := os.Getenv(hostOfTunnel); server != "" {
		session := online(t, newRuntime(t, execbus.Options{}), allowed(server, messages.HostTCP))
		started, err := session.Start(context.Background(), messages.ExecCommand{Argv: []string{"bash", "-c", tunnel + "echo $$; exec cat <&3 >/dev/null", "bash", server}})
		if err != nil {
			t.Fatal(err)
		}
		for event, err := range started.Follow(context.Background(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			if e, is := event.(messages.OutputDelta); is {
				_, _ = os.Stdout.Write(e.Bytes)
			}
		}
		return
	}
	server := listen(t)
	online(t, newRuntime(t, execbus.Options{}), messages.NetworkPolicy{}) // skips where there is no isolation
	host := osexec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	host.Env, host.Stderr = append(os.Environ(), hostOfTunnel+"="+server.Addr().String(), "TMPDIR="+t.TempDir()), os.Stderr // it cleans nothing up
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	defer host.Wait()
	defer host.Process.Kill()
	far, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	if _, err := io.WriteString(far, "hello"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	commands := func() (left []string) {
		entries, _ := os.ReadDir("/proc")
		for _, entry := range entries {
			env, _ := os.ReadFile(fmt.Sprintf("/proc/%s/environ", entry.Name()))
			if strings.Contains(string(env), hostOfTunnel+"="+server.Addr().String()) {
				left = append(left, entry.Name())
			}
		}
		return left
	}
	if len(commands()) < 2 {
		t.Fatalf("of the host and its command there is %v", commands())
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = far.SetReadDeadline(time.Now().Add(patience))
	if _, err := far.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the tunnel is still open: %v", err)
	}
	_, _ = io.Copy(io.Discard, out)
	_ = host.Wait()
	for late := time.Now().Add(patience); len(commands()) > 0 && time.Now().Before(late); {
		time.Sleep(10 * time.Millisecond)
	}
	if left := commands(); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}
