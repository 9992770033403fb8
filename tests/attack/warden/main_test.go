//go:build linux

package warden

import (
	"os"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

// The roles of this binary when it is executed again. They are its first argument.
const (
	roleStop = "attack-stop" // stops all children of a process
	roleHost = "attack-host" // starts commands, and is killed
)

// patience is what only a defect makes a test wait for.
const patience = time.Minute

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case roleStop:
			stopAll(os.Args[2])
		case roleHost:
			beHost(messages.Assurance(os.Args[2]), os.Args[3], os.Args[4], os.Args[5], os.Args[6])
		}
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // for the processes that this program starts: otherwise each takes a second to exit
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
