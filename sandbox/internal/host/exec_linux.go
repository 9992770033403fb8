package host

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/internal/reexec"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/internal/warden"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

// startWarden executes this program, or the one that the options name, as a warden.
func startWarden(options Options) (*process, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "host")
	defer theirs.Close()
	stderr, theirStderr, err := outputPipe()
	if err != nil {
		return nil, errors.Join(err, unix.Close(pair[0]))
	}
	defer theirStderr.Close()
	p := newProcess(options, stderr)
	if _, err = unix.Write(pair[0], []byte(warden.Greeting)); err != nil {
		return nil, errors.Join(fmt.Errorf("greet the warden: %w", err), stderr.Close(), unix.Close(pair[0]))
	}
	if p.conn, err = wire.NewConn(pair[0], options.Timeouts.Send); err != nil {
		return nil, errors.Join(err, stderr.Close())
	}
	if err := p.exec(theirs, theirStderr); err != nil {
		return nil, errors.Join(err, p.conn.Close(), stderr.Close())
	}
	go p.readOutput()
	p.out = wire.NewOutbox(p.conn)
	return p, nil
}

func newProcess(options Options, stderr *os.File) *process {
	return &process{options: options, stderr: stderr, output: make(chan string, 1), ready: make(chan struct{}), gone: make(chan struct{}),
		registering: make(chan struct{}, 1), plans: map[*Enclosure]uint64{}, leaders: map[uint64]*leader{}, listeners: map[uint64]*Sockets{}}
}

// runtimeSettings replace settings that the host has for its own heap. One thread of a warden does nearly everything and
// keeps one of Go's processors while it waits for the kernel. All else shares the other: threads that look for work would take time
// from the commands. Go lets any heap grow to 4 MB before it collects it, at a GOGC of 100; a warden's live heap is a tenth of that.
var runtimeSettings = map[string]string{"GOMAXPROCS": "2", "GOGC": "25", "GOMEMLIMIT": "off"}

// exec starts the process. Its directory is "/".
func (p *process) exec(socket, stderr *os.File) error {
	env, err := ptyio.BuildEnvironment(os.Environ(), p.options.Environment, runtimeSettings)
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	files := []uintptr{null.Fd(), null.Fd(), stderr.Fd(), socket.Fd(), null.Fd()}
	if us, err := unix.PidfdOpen(os.Getpid(), 0); err == nil { // without it only the socket reports the host's death
		defer unix.Close(us)
		files[len(files)-1] = uintptr(us)
	}
	pidfd := -1
	p.pid, err = syscall.ForkExec(cmp.Or(p.options.Warden, reexec.Self), []string{warden.Name}, &syscall.ProcAttr{
		Dir: "/", Env: env, Files: files, Sys: &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd}})
	if err != nil {
		return fmt.Errorf("execute %s: %w", cmp.Or(p.options.Warden, "this program again"), err)
	}
	_ = syscall.SetNonblock(pidfd, true)
	p.pidfd = os.NewFile(uintptr(pidfd), "pidfd")
	return nil
}

// outputPipe makes a pipe for what the warden writes. It needs neither a file system nor a limit of file sizes.
func outputPipe() (read, write *os.File, err error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	_ = unix.SetNonblock(pipe[0], true) // the warden's end must block: what does not fit would be lost
	return os.NewFile(uintptr(pipe[0]), "warden"), os.NewFile(uintptr(pipe[1]), "warden"), nil
}

// maxOutput is how much of a dead warden's output is reported.
const maxOutput = 4 << 10

// readOutput reads what the warden writes, and keeps the end of it.
func (p *process) readOutput() {
	var tail []byte
	var room [maxOutput]byte
	for {
		n, err := p.stderr.Read(room[:])
		tail = append(tail, room[:max(n, 0)]...)
		tail = tail[max(0, len(tail)-maxOutput):]
		if err != nil {
			p.output <- string(tail)
			return
		}
	}
}

// outputWait bounds the wait for the end of a dead warden's output: a child of it may still have the pipe.
const outputWait = time.Second

// lastOutput returns the end of the dead warden's output.
func (p *process) lastOutput() string {
	defer p.stderr.Close()
	_ = p.stderr.SetReadDeadline(time.Now().Add(outputWait))
	return <-p.output
}

// errNotStarted is the error for a warden that ended, or was killed, before it greeted the host.
func errNotStarted(status messages.ExitStatus, output string) error {
	detail := "the warden did not start (" + status.String() + ")"
	if output = strings.TrimSpace(output); output != "" {
		detail += ", and said: " + output
	}
	return &messages.Error{Code: messages.ErrSpawnFailed, Op: "spawn", Subject: "warden", Detail: detail,
		Hint: "it is this program, executed again: what its packages do before main must work there, too. " +
			"Options.Warden can name another program, and the direct spawner needs none"}
}
