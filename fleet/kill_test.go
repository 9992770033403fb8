package fleet

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/fleet/embedded"
	"github.com/execbus/execbus/messages"
)

// The size of TestNothingIsLostOrDoneTwice. By hand: go test -run TestNothingIsLost -rounds 20 -sessions 300 -commands 3000 -timeout 1h
var (
	rounds   = flag.Int("rounds", 1, "rounds of kills")
	sessions = flag.Int("sessions", 9, "sessions of a round")
	commands = flag.Int("commands", 54, "commands of a round")
)

// role makes a process of this binary a member of a fleet: "server DIR ADDRESS", "node URL ID" or "client URL SESSION KEY SCRIPT".
const role = "EXECBUS_FLEET_TEST_ROLE"

// runRole runs a role until it is told to stop, and says when it is ready.
func runRole(words []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() { // the test is gone, however it ended
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	if words[0] == "server" {
		server, err := embedded.Start(embedded.Options{Dir: words[1], Listen: words[2], Token: "secret"})
		if err != nil {
			return err
		}
		defer server.Close()
		fmt.Println(server.URL())
		<-ctx.Done()
		return nil
	}
	nc, err := patiently(ctx, nil, func() (*nats.Conn, error) { return Connect(words[1]) })
	if err != nil {
		return err
	}
	defer nc.Close()
	if words[0] == "client" {
		s, err := Attach(ctx, nc, messages.SessionID(words[2]))
		if err != nil {
			return err
		}
		fmt.Println("ready")
		_, err = s.Exec(WithKey(ctx, words[3]), shell(words[4]))
		return err
	}
	rt, err := execbus.Start(execbus.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = rt.Shutdown(context.Background()) }()
	for { // as a service manager does: a server that is killed just now does not answer
		err := Serve(ctx, nc, rt, Node{ID: words[2], Slots: 1000, LostAfter: 2 * shortLease, Ready: func() { fmt.Println("ready") }})
		if !errors.Is(err, messages.ErrUnreachable) || ctx.Err() != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// child is a member in a process of its own.
type child struct {
	cmd  *exec.Cmd
	in   io.Closer // as long as it is open the test lives
	said string    // when it was ready
}

func startChild(words ...string) (*child, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), role+"="+strings.Join(words, "\n"))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, fmt.Errorf("%v did not become ready: %w", words[:1], err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return &child{cmd, in, strings.TrimSpace(line)}, nil
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

func (c *child) stop() error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	return c.cmd.Wait()
}

// storm is one round.
type storm struct {
	t      *testing.T
	ctx    context.Context
	dir    string
	server *child
	where  string // its address
	nc     *nats.Conn
	links  [3]*link
	nodes  [3]*child
	mu     sync.Mutex // workers add what they have opened
	opened []messages.SessionID
	lost   int // commands whose node was lost
}

// disturb does one thing that must not matter.
func (s *storm) disturb() error {
	i := rand.IntN(len(s.nodes))
	var err error
	switch rand.IntN(4) {
	case 0: // a node's program is killed, and started again
		s.nodes[i].kill()
		if node, failed := startChild("node", "nats://secret@"+s.links[i].listener.Addr().String(), fmt.Sprint("n", i)); failed == nil {
			s.nodes[i] = node
		} else {
			err = failed
		}
	case 1: // the server is killed, and started again
		s.server.kill()
		if server, failed := startChild("server", s.dir, s.where); failed == nil {
			s.server = server
		} else {
			err = failed
		}
	case 2: // a short cut
		s.links[i].hold()
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
		s.links[i].heal()
	case 3: // a long one: the node is given up, and comes back
		s.links[i].hold()
		time.Sleep(5 * shortLease)
		s.links[i].heal()
	}
	return err
}

// patiently does something until the server is there.
func patiently[T any](ctx context.Context, again error, do func() (T, error)) (result T, err error) {
	for {
		if result, err = do(); !errors.Is(err, messages.ErrUnreachable) && !errors.Is(err, messages.ErrLimitReached) && (again == nil || !errors.Is(err, again)) || ctx.Err() != nil {
			return result, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// work runs commands, in one session after the other.
func (s *storm) work(worker, commands int) error {
	var session *Session
	for i := range commands {
		if session == nil {
			var err error
			session, err = patiently(s.ctx, messages.ErrNodeLost, func() (*Session, error) { return Open(s.ctx, s.nc, Placement{Wait: patience}) })
			if err != nil {
				return fmt.Errorf("open: %w", err)
			}
			s.mu.Lock()
			s.opened = append(s.opened, session.ID())
			s.mu.Unlock()
		}
		key := fmt.Sprintf("%d.%d", worker, i)
		file := filepath.Join(s.dir, "done."+key)
		lines := 1 + rand.IntN(2000)
		script := fmt.Sprintf("echo x >>%s; seq %d", file, lines)
		if rand.IntN(8) == 0 { // a client is killed in the middle of the call; its successor repeats it
			if c, err := startChild("client", "nats://secret@"+s.where, string(session.ID()), key, script); err == nil {
				time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
				c.kill()
			}
		}
		result, err := session.Exec(WithKey(s.ctx, key), shell(script))
		done, _ := os.ReadFile(file)
		if n := strings.Count(string(done), "x"); n > 1 || n == 0 && err == nil {
			return fmt.Errorf("command %s was done %d times", key, n)
		}
		if errors.Is(err, messages.ErrNodeLost) || errors.Is(err, messages.ErrClosed) {
			s.mu.Lock()
			s.lost++
			s.mu.Unlock()
			session = nil
			continue
		}
		if err != nil {
			return fmt.Errorf("command %s: %w", key, err)
		}
		if err := s.follow(session, result.Process, lines); err != nil {
			return fmt.Errorf("command %s: %w", key, err)
		}
	}
	return nil
}

// follow reads the output, again from where it was if the reading is interrupted. It must be what was written, or a beginning of that and a
// gap that says that its node is lost.
func (s *storm) follow(session *Session, process messages.ProcessID, lines int) error {
	var want strings.Builder
	for i := range lines {
		want.WriteString(strconv.Itoa(i+1) + "\n")
	}
	var got strings.Builder
	_, err := patiently(s.ctx, nil, func() (struct{}, error) {
		for event, err := range Follow(s.ctx, s.nc, session.ID(), process, int64(got.Len())) {
			if err != nil {
				return struct{}{}, err
			}
			switch e := event.(type) {
			case messages.OutputDelta:
				if e.Offset != int64(got.Len()) {
					return struct{}{}, fmt.Errorf("%d bytes at %d, want them at %d", len(e.Bytes), e.Offset, got.Len())
				}
				got.Write(e.Bytes)
			case messages.Gap:
				place, err := session.fleet.read(s.ctx, session.ID())
				if err == nil && place.State != StateLosing && place.State != StateLost {
					return struct{}{}, fmt.Errorf("%v, and the session is %s", e, place.State)
				}
				if !strings.HasPrefix(want.String(), got.String()) || e.First != int64(got.Len()) {
					return struct{}{}, fmt.Errorf("%v behind %d bytes", e, got.Len())
				}
				end := e.End
				if end == messages.UnknownEnd {
					end = int64(want.Len())
				}
				if end > int64(want.Len()) {
					return struct{}{}, fmt.Errorf("%v, and all are %d bytes", e, want.Len())
				}
				got.WriteString(want.String()[got.Len():end])
			}
		}
		return struct{}{}, nil
	})
	if err == nil && got.String() != want.String() {
		err = fmt.Errorf("%d bytes of output, want %d", got.Len(), want.Len())
	}
	return err
}

// Nodes, the server and clients are killed, and links are cut, while commands run. Every command has exactly one end, nothing is done twice,
// no byte is given twice, and none is lost but the unpublished end of a lost node's output, which is a named gap. No process survives.
func TestNothingIsLostOrDoneTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("nodes, the server and clients are killed, which takes seconds: not with -short")
	}
	for range *rounds {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		s := &storm{t: t, ctx: ctx, dir: t.TempDir()}
		if err := s.round(); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
}

func (s *storm) round() (err error) {
	if s.server, err = startChild("server", s.dir, "127.0.0.1:0"); err != nil {
		return err
	}
	defer func() { s.server.kill() }()
	s.where = strings.TrimPrefix(s.server.said, "nats://secret@")
	if s.nc, err = Connect(s.server.said); err != nil {
		return err
	}
	defer s.nc.Close()
	if err := Setup(s.ctx, s.nc, Settings{Lease: shortLease}); err != nil {
		return err
	}
	for i := range s.nodes {
		s.links[i] = newLink(s.t, s.where)
		if s.nodes[i], err = startChild("node", "nats://secret@"+s.links[i].listener.Addr().String(), fmt.Sprint("n", i)); err != nil {
			return err
		}
		defer func() { s.nodes[i].kill() }()
	}
	working, failures := sync.WaitGroup{}, make(chan error, *sessions)
	for worker := range *sessions {
		working.Go(func() { failures <- s.work(worker, *commands / *sessions) })
	}
	finished := make(chan struct{})
	go func() { working.Wait(); close(finished) }()
	disturbances := 0
	for over := false; !over; {
		select {
		case <-finished:
			over = true
		case <-time.After(100 * time.Millisecond):
			if disturbances++; disturbances <= 3 || *rounds > 1 {
				if err := s.disturb(); err != nil {
					return err
				}
			}
		}
	}
	for range *sessions {
		err = errors.Join(err, <-failures)
	}
	if err != nil {
		return err
	}
	ended := 0
	for _, id := range s.opened {
		session, err := patiently(s.ctx, nil, func() (*Session, error) { return Attach(s.ctx, s.nc, id) })
		if err == nil {
			err = session.Close(s.ctx)
		}
		if err != nil && !errors.Is(err, messages.ErrNodeLost) && !errors.Is(err, messages.ErrClosed) {
			return fmt.Errorf("close %s: %w", id, err)
		}
		n, err := s.judge(id)
		if err != nil {
			return err
		}
		ended += n
	}
	for i, node := range s.nodes {
		if err := node.stop(); err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
	}
	s.t.Logf("%d commands in %d sessions, %d disturbances: %d ends, %d calls to lost nodes", *commands, len(s.opened), disturbances, ended, s.lost)
	return s.survivors()
}

// judge reads the events of a session: each process has one end, as its last event.
func (s *storm) judge(id messages.SessionID) (int, error) {
	ended := map[messages.ProcessID]bool{}
	seen := map[messages.ProcessID]bool{}
	for event, err := range Events(s.ctx, s.nc, id) {
		if err != nil {
			return 0, err
		}
		process := event.From().Process
		if process == 0 {
			continue
		}
		if ended[process] {
			return 0, fmt.Errorf("%s of process %v of %s comes after its end", event.Kind(), process, id)
		}
		seen[process] = true
		ended[process] = event.Kind() == messages.KindExecEnded
	}
	for process := range seen {
		if !ended[process] {
			return 0, fmt.Errorf("process %v of %s has no end", process, id)
		}
	}
	return len(seen), nil
}

// survivors are processes that mention the round's directory.
func (s *storm) survivors() error {
	left := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		left = ""
		dirs, _ := filepath.Glob("/proc/[0-9]*")
		for _, dir := range dirs {
			line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			if strings.Contains(string(line), s.dir+"/done.") {
				left = dir + ": " + strings.ReplaceAll(string(line), "\x00", " ")
			}
		}
		if left == "" {
			return nil
		}
	}
	return errors.New("it survives: " + left)
}
