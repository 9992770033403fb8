package execserver

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// stage is a spawner whose children are not processes, so that no input of a fuzzer runs a program.
type stage struct{}

func (stage) Resolver() ptyio.Resolver { return ptyio.Local() }
func (stage) Close() error             { return nil }

func (stage) Enclose(_ context.Context, c ptyio.Confinement) (ptyio.Enclosure, error) {
	return ptyio.Enclosed(c), nil
}

func (stage) Can(ptyio.Launch) (messages.Enforcement, error) {
	return messages.Enforcement{Level: messages.AssuranceConfined}, nil
}

func (stage) Spawn(_ context.Context, launch ptyio.Launch) (ptyio.Child, error) {
	if len(launch.Argv[0]) > 5 {
		return nil, &messages.Error{Code: messages.ErrNoSuchProgram, Op: "spawn", Subject: launch.Argv[0], Detail: "there is no such program"}
	}
	p := &player{events: launch.Events}
	launch.Events(ptyio.Spawned{Child: p})
	p.say("begun")
	return p, nil
}

// player is a child that echoes.
type player struct {
	events func(ptyio.Event)
	mu     sync.Mutex
	ended  bool
}

func (p *player) say(text string) {
	p.events(ptyio.NewOutput(messages.StreamStdout, []byte(text), nil))
}

func (p *player) PID() int { return 1 }

func (p *player) Write(input []byte, _ time.Time, done func(ptyio.Taken, error)) func() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		done(ptyio.Taken{}, messages.ErrClosed)
		return nil
	}
	text := bytes.Clone(input)
	go p.say(string(text))
	done(ptyio.Taken{Bytes: len(input)}, nil)
	return nil
}

func (p *player) CloseStdin(done func(error))              { done(nil) }
func (p *player) Resize(messages.Size) error               { return nil }
func (p *player) Signal(syscall.Signal, ptyio.Scope) error { return nil }
func (p *player) Abandon()                                 { p.EndTree(0) }
func (p *player) EndTree(time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	go func() {
		p.events(ptyio.Exited{Status: messages.StatusSignaled(syscall.SIGTERM)})
		p.events(ptyio.Drained{})
		p.events(ptyio.Closed{})
		p.events(ptyio.TreeEnded{})
	}()
}

// FuzzServer sends lines to a server, after a good handshake or instead of it. Every answer must be a message, and the connection must
// end with its client.
func FuzzServer(f *testing.F) {
	start := `{"id":1,"method":"process/start","params":{"processId":"p","argv":["a"],"cwd":"/","env":{},"tty":true}}` + "\n"
	for _, seed := range []string{"", "{", "\n\n", `{"id":1,"method":"initialize","params":{"clientName":"x"}}`, start,
		start + `{"id":2,"method":"process/write","params":{"processId":"p","chunk":"aGk=","writeId":"w"}}` + "\n" +
			`{"id":3,"method":"process/read","params":{"processId":"p","waitMs":1,"maxBytes":0,"afterSeq":0}}` + "\n" +
			`{"id":4,"method":"process/resize","params":{"processId":"p","size":{"rows":1,"cols":1}}}` + "\n" +
			`{"id":5,"method":"process/signal","params":{"processId":"p","signal":"SIGHUP"}}` + "\n" +
			`{"method":"process/acknowledge","params":{"processId":"p","seq":18446744073709551615}}` + "\n" +
			`{"id":6,"method":"process/terminate","params":{"processId":"p","graceMs":0}}`,
		`{"id":1,"method":"fs/writeFile","params":{"path":"ROOT/f","dataBase64":"aGk="}}` + "\n" + `{"id":2,"method":"fs/walk","params":{"path":"ROOT"}}`,
		`{"id":"x","method":"environment/enclose","params":{"sandbox":{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}]}}}}}`} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	root := f.TempDir()
	server, err := NewServer(stage{}, Options{Roots: []string{root}, Detached: time.Millisecond, MaxRequests: 4, MaxProcesses: 4, MaxMessage: 1 << 16})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(server.Close)
	f.Fuzz(func(t *testing.T, text []byte, polite bool) {
		here, there := newPair()
		served := make(chan error, 1)
		go func() { served <- server.serve(context.Background(), there, false) }()
		lines := strings.Split(strings.ReplaceAll(string(text), "ROOT", root), "\n")
		if polite {
			lines = append([]string{`{"id":0,"method":"initialize","params":{"clientName":"x","extensions":["flow","ends"]}}`, `{"method":"initialized"}`}, lines...)
		}
		go func() {
			for {
				answer, err := here.Read(context.Background())
				if err != nil {
					return
				}
				if _, err := wire.Parse(answer); err != nil {
					t.Errorf("%s: %v", answer, err)
				}
			}
		}()
		for _, line := range lines {
			if here.Write(context.Background(), []byte(line)) != nil {
				break
			}
		}
		_ = here.Close()
		<-served
	})
}
