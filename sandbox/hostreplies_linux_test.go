package sandbox

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// The host needs neither a poller nor a goroutine for the output of a command whose exit it knows at its birth.
func TestTheBirthOfAShortCommandSaysThatItIsOver(t *testing.T) {
	spawner, err := newDefault(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer spawner.Close()
	w := spawner.(*wardens)
	t.Run("warden", func(t *testing.T) { testShortCommand(t, asked{w, w.mirror.begun.Load()}) })
	direct := newForking()
	defer direct.Close()
	t.Run("direct", func(t *testing.T) { testShortCommand(t, direct) })
}

func testShortCommand(t *testing.T, starter ptyio.Starter) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); { // on a busy machine no command is short
		var events []string
		var known bool
		ended := make(chan struct{})
		_, err := starter.Start(t.Context(), ptyio.Start{Program: "/bin/true", Argv: []string{"true"}, Dir: "/",
			Files: []*os.File{null, null, null}, Taken: func() {},
			Born:      func(_ ptyio.Leader, over bool) { events, known = append(events, "born"), over },
			Exited:    func(messages.ExitStatus, error) { events = append(events, "exited") },
			TreeEnded: func(messages.TreeReport) { events = append(events, "ended"); close(ended) },
		})
		if err != nil {
			t.Fatal(err)
		}
		<-ended
		all := []string{"born", "exited", "ended"}
		if !slices.Equal(events, all) && (known || !slices.Equal(events, all[1:])) { // of a birth that is not over nobody need tell
			t.Fatal(events)
		}
		if known {
			return
		}
	}
	t.Error("no birth did")
}
