//go:build linux

package hostile_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// ofHosts are the programs that a host runs when it is killed.
var ofHosts = []string{
	`setsid sleep $1 & sleep $1`,
	`(setsid sleep $1 &); (cd /; env -i setsid sleep $1 &); sleep $1`,
	`trap "" TERM HUP INT; sleep $1 & sleep $1; sleep $1`,
	`while :; do echo $1; done`,
	`while :; do sleep $1 & kill $!; wait; done`,
	`sleep $1 & kill -STOP 0; sleep $1`,
	`(setsid bash -c 'trap "" TERM; while :; do sleep 0.01; done' $1 &); exit 0`,
	`exec <&- >&- 2>&-; sleep $1`,
	`nohup sleep $1 >/dev/null 2>&1 & disown; exit 0`,
	`cat <(sleep $1)`,
	`trap 'for i in {1..5}; do setsid sleep $1 & done' TERM; sleep $1 & wait; sleep $1`,
	`bash -c 'bash -c "sleep $0; true" $0; true' $1; true`,
	`n=${2:-0}; exec bash -c "$BASH_EXECUTION_STRING" bash $1 $((n+1))`,
}

// beHost starts all of them and the roles, again and again, and prints how many it has started, until it is killed.
func beHost() {
	token, ctx := os.Args[1], context.Background()
	runtime, err := execbus.Start(execbus.Options{})
	must(err)
	for round := 0; ; round++ {
		session, err := runtime.OpenSession(execbus.SessionOptions{Dir: os.Args[2]})
		must(err)
		var commands []messages.ExecCommand
		for i, script := range ofHosts {
			command := messages.ExecCommand{Argv: []string{"bash", "-c", script, "bash", token}, TTY: (i+round)%2 == 0}
			if i%3 == 0 {
				command.OnLeaderExit = messages.LeaderExitKeepsTree
			}
			commands = append(commands, command)
		}
		for role, argument := range map[string]string{"comet": "20000", "bomb": "5", "hydra": "100"} {
			commands = append(commands, messages.ExecCommand{Argv: []string{self, token, argument}, TTY: round%2 == 0,
				Environment: &messages.EnvironmentPolicy{Set: map[string]string{roleVariable: role}}})
		}
		for _, command := range commands {
			_, err := session.Start(ctx, command)
			must(err)
			fmt.Println("started")
		}
		if round == 1 {
			select {}
		}
	}
}

// Hosts are killed at random moments. Their processes are soon gone.
func TestHostsThatAreKilled(t *testing.T) {
	ledger.enter(t)
	random := rand.New(rand.NewPCG(*seed, 0))
	var slowest time.Duration
	most := 0
	for i := range sample(100) {
		after, pause := random.IntN(2*(len(ofHosts)+3)+1), time.Duration(random.Int64N(int64(20*time.Millisecond)))
		t.Run("", func(t *testing.T) {
			t.Logf("round %d (seed %d): it is killed after %d starts", i, *seed, after)
			took, had := killHost(t, after, pause)
			slowest, most = max(slowest, took), max(most, had)
		})
	}
	note(t, "nothing lives after %d ms, of at most %d processes", slowest.Milliseconds(), most)
}

// killHost kills a host some time after so many of its commands have started. It returns how long the last process lived on,
// and how many processes were alive at the kill.
func killHost(t *testing.T, after int, pause time.Duration) (time.Duration, int) {
	t.Helper()
	had := remember()
	token := newToken()
	dir := scratch(t, token)
	others := wardens(0)
	host := exec.Command(self, token, dir)
	host.Env = append(os.Environ(), roleVariable+"=host", "TMPDIR="+dir)
	output, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	for range after {
		if !lines.Scan() {
			t.Fatal("the host died by itself")
		}
	}
	time.Sleep(pause) // the random part of the moment
	alive := len(living(token))
	if err := host.Process.Kill(); err != nil {
		t.Error(err)
	}
	began := time.Now()
	_ = host.Wait()
	eventually(t, "everything the host had ends", func() bool {
		return len(living(token)) == 0 && !slices.ContainsFunc(wardens(0), func(w seen) bool { return !hasPID(others, w.pid) })
	})
	took := time.Since(began)
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) > 0 {
		t.Errorf("files are left: %v", files)
	}
	had.nothingLeft(t, token)
	return took, alive
}

func hasPID(all []seen, pid int) bool {
	return slices.ContainsFunc(all, func(p seen) bool { return p.pid == pid })
}
