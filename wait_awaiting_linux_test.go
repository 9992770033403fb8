package execbus_test

import (
	"maps"
	osexec "os/exec"
	"strings"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// listens is a server in python that listens on a port of its own choice when it gets a line.
const listens = `import socket, sys, time
sys.stdin.readline(); s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); time.sleep(1000)`

// One wait is for input at some processes and for a port at others, with every spawner and at every level of the sandbox.
func TestAWaitIsForInputAndPortsAtSeveralProcesses(t *testing.T) {
	if _, err := osexec.LookPath("python3"); err != nil {
		t.Skip("skipped: ", err)
	}
	confined := func(least messages.Assurance, network bool) execbus.SessionOptions {
		return execbus.SessionOptions{LeastAssurance: least, Approval: messages.ApprovalPolicy{Mode: messages.ApproveNever},
			Sandbox: &messages.SandboxPolicy{Type: messages.SandboxWorkspaceWrite, NetworkAccess: network}}
	}
	for name, c := range map[string]struct {
		warden  bool
		options execbus.SessionOptions
	}{
		"direct":                         {false, execbus.SessionOptions{}},
		"warden":                         {true, execbus.SessionOptions{}},
		"confined, with the network":     {true, confined(messages.AssuranceConfined, true)},
		"isolated, with the network":     {true, confined(messages.AssuranceIsolated, true)},
		"isolated, a network of its own": {true, confined(messages.AssuranceIsolated, false)},
	} {
		t.Run(name, func(t *testing.T) {
			rt := newRuntime(t, execbus.Options{Spawner: newSpawner(t, c.warden)})
			c.options.Dir, c.options.LongestPoll = t.TempDir(), forever
			session := openSession(t, rt, c.options)
			start := func(command messages.ExecCommand) messages.ProcessID {
				t.Helper()
				process, err := session.Start(patient(t), command)
				if err != nil {
					if c.options.Sandbox != nil {
						t.Skip("skipped: ", err)
					}
					t.Fatal(err)
				}
				return process.ID()
			}
			reads := start(messages.ExecCommand{Argv: []string{"sh", "-c", "read x; stty -echo; read y; exec sleep 1000"}, TTY: true})
			pipes := start(messages.ExecCommand{Argv: []string{"sh", "-c", "read x; exec sleep 1000"}, OpenStdin: true})
			serves := start(messages.ExecCommand{Argv: []string{"python3", "-c", listens}, OpenStdin: true})
			works := start(messages.ExecCommand{Argv: []string{"sleep", "1000"}, TTY: true})
			port := messages.WaitFor{Process: serves, Until: &messages.Until{Listening: new(uint16)}}
			wait := func(w messages.Wait) map[messages.ProcessID]messages.Met {
				t.Helper()
				w.Yield = new(forever)
				found, err := session.Wait(patient(t), w)
				if err != nil {
					t.Fatal(err)
				}
				met := map[messages.ProcessID]messages.Met{}
				for _, f := range found {
					met[f.Process] = f.Met
				}
				return met
			}
			all := wait(messages.Wait{For: []messages.WaitFor{{Process: reads, Until: untilInput()}, {Process: pipes, Until: untilInput()}}})
			for _, id := range []messages.ProcessID{reads, pipes} {
				if m := all[id]; m.Reason != messages.MetAwaitingInput || m.Input.Kind != messages.InputLine || m.Input.Guess {
					t.Errorf("%d: %+v", id, m)
				}
			}
			enter := func(id messages.ProcessID) {
				t.Helper()
				if _, err := session.Write(patient(t), messages.WriteStdin{Process: id, Bytes: []byte("x\n"), UntilTaken: true}); err != nil {
					t.Fatal(err)
				}
			}
			enter(pipes)
			enter(reads)
			first := wait(messages.Wait{Any: true, For: []messages.WaitFor{{Process: reads, Until: untilInput()}, {Process: pipes, Until: untilInput()}, {Process: works, Until: untilInput()}, port}})
			if m := first[reads]; len(first) != 1 || m.Reason != messages.MetAwaitingInput || m.Input.Kind != messages.InputSecret {
				t.Errorf("%+v", first)
			}
			enter(serves)
			first = wait(messages.Wait{Any: true, For: []messages.WaitFor{{Process: works, Until: untilInput()}, {Process: pipes, Until: untilInput()}, port}})
			if m := first[serves]; len(first) != 1 || m.Reason != messages.MetListening || !strings.HasPrefix(m.Address, "127.0.0.1:") {
				t.Errorf("%+v", first)
			}
			list, err := session.List(patient(t))
			said := map[messages.ProcessID]string{}
			for _, p := range list {
				said[p.Process], _, _ = strings.Cut(p.Awaits.String(), " 127")
			}
			want := map[messages.ProcessID]string{reads: "waits for input: a secret: echo is off", pipes: "", serves: "listens on", works: ""}
			if err != nil || !maps.Equal(said, want) {
				t.Errorf("%v, %v", said, err)
			}
		})
	}
}
