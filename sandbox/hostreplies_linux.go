package sandbox

import (
	"errors"
	"io"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox/internal/tree"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

// serve reads replies until the warden is gone, and then reports the fate of its children.
func (p *wardenProcess) serve() {
	late := time.AfterFunc(p.options.waits().hello, p.kill)
	defer late.Stop()
	for {
		var reply wire.Reply
		if err := p.conn.Receive(&reply); err != nil {
			break
		}
		if reply.Hello != nil {
			late.Stop()
			p.marks = tree.Marks{Time: reply.Hello.Time, Locks: reply.Hello.Locks, Nonce: reply.Hello.Nonce}
			p.entry = noteState(p.options.StateDir, p.pid, p.marks)
			close(p.ready)
			continue
		}
		p.dispatch(reply)
	}
	p.bury()
}

func (p *wardenProcess) dispatch(reply wire.Reply) {
	p.mu.Lock()
	l := p.leaders[reply.ID]
	if l == nil {
		p.mu.Unlock()
		return
	}
	if reply.Ended != nil || reply.Failed != nil {
		delete(p.leaders, reply.ID)
		if p.retired && len(p.leaders) == 0 {
			go p.close() // in a goroutine, because it waits for this one
		}
	}
	if reply.Started != nil {
		l.pid, l.mark = reply.Started.PID, tree.Mark(reply.Started.Mark)
	}
	l.exited = l.exited || reply.Exited != nil
	hung := reply.Started != nil && p.hung.took(l.pid) && !l.abandoned // took comes first, because the pid may be used again
	if hung {
		l.abandoned = true
		l.reply <- errHung(l.spec.Program, p.options.waits().tend)
	}
	abandoned, exited := l.abandoned, l.exited
	p.mu.Unlock()
	switch {
	case abandoned && (reply.Ended != nil || reply.Failed != nil):
		close(l.over)
	case abandoned && reply.Started != nil:
		l.EndTree(0)
	case abandoned:
	case reply.Failed != nil:
		l.reply <- stepError(reply.Failed.Step, reply.Failed.Errno)
	default:
		if reply.Started != nil {
			for _, dir := range reply.Started.Unshared {
				p.options.notice("the protected names that are missing in " + dir + " may become free while a command runs: another program holds a lock on that directory")
			}
			if !p.out.Holds(l.id) { // otherwise the caller of Start reports the birth when the files are no longer in use
				l.spec.Born(l)
			}
			l.reply <- nil
		}
		l.last(reply, exited)
	}
}

// last passes on what a reply says about the exit, the background children and the end of the tree.
func (l *wardenLeader) last(reply wire.Reply, exited bool) {
	if reply.Exited != nil {
		l.spec.Exited(exitStatus(*reply.Exited), nil)
	}
	if reply.Left > 0 {
		l.spec.Background(reply.Left)
	}
	if reply.Ended == nil {
		return
	}
	if !exited {
		l.spec.Exited(messages.StatusNone(), errNotKilled())
	}
	l.spec.TreeEnded(treeReport(*reply.Ended))
}

// bury waits for the warden's end, searches for processes of its trees, and reports each child's end.
func (p *wardenProcess) bury() {
	defer close(p.gone)
	p.mu.Lock()
	p.dead = true
	expected, gone := p.closing, errWardenLost()
	if expected {
		gone = errClosed()
	}
	left, known := p.leaders, len(p.leaders)
	p.leaders = map[uint64]*wardenLeader{}
	var unanswered []*wardenLeader
	for id, l := range left {
		if l.pid == 0 || l.abandoned { // if such a tree has a leader, the leader also carries the mark
			delete(left, id)
		}
		if l.pid == 0 && !l.abandoned {
			unanswered = append(unanswered, l)
		}
	}
	p.mu.Unlock()
	_ = p.conn.Close()
	p.out.Abort()
	children := len(left)
	status := p.await()
	var total messages.TreeReport
	if !expected || known > 0 { // otherwise the warden has said of every tree that it has ended
		total = p.reportLost(left)
	}
	for _, l := range unanswered { // now nothing of the start lives
		l.reply <- gone
	}
	words := p.words()
	if !p.greeted() {
		p.mu.Lock()
		p.failed = errNotStarted(status, words)
		p.mu.Unlock()
		return
	}
	p.entry.remove()
	if p.options.Lost != nil && !expected {
		p.options.Lost(WardenLost{PID: p.pid, Status: status, Children: children, Tree: total, Output: words})
	}
}

func (p *wardenProcess) greeted() bool {
	select {
	case <-p.ready:
		return true
	default:
		return false
	}
}

// lostOutput is how much of a dead warden's output is reported.
const lostOutput = 4 << 10

// listen reads what the warden writes, and keeps the end of it.
func (p *wardenProcess) listen() {
	var tail []byte
	var room [lostOutput]byte
	keep := func(n int) {
		tail = append(tail, room[:max(n, 0)]...)
		tail = tail[max(0, len(tail)-lostOutput):]
	}
	for {
		n, err := p.stderr.Read(room[:])
		if keep(n); err == nil {
			continue
		}
		if raw, closed := p.stderr.SyscallConn(); closed == nil && !errors.Is(err, io.EOF) { // another process has the other end, too
			_ = raw.Control(func(fd uintptr) {
				for range pipeSize / lostOutput {
					n, _ := unix.Read(int(fd), room[:])
					keep(n)
				}
			})
		}
		p.heard <- string(tail)
		return
	}
}

// pipeSize is how much a pipe holds.
const pipeSize = 64 << 10

// words returns the end of the dead warden's output.
func (p *wardenProcess) words() string {
	defer p.stderr.Close()
	_ = p.stderr.SetReadDeadline(time.Unix(1, 0))
	return <-p.heard
}

// reportLost ends the processes that the warden has left behind, and reports the end of each of its children.
func (p *wardenProcess) reportLost(left map[uint64]*wardenLeader) (total messages.TreeReport) {
	for _, l := range left {
		if !l.exited {
			l.spec.Exited(messages.StatusNone(), errWardenLost())
		}
	}
	reports := tree.EndMarked(p.marks, marks(left))
	for _, report := range reports {
		total.Ended += report.Ended
		total.Survivors = append(total.Survivors, treeReport(report).Survivors...)
	}
	for _, l := range left {
		l.spec.TreeEnded(treeReport(reports[l.mark]))
	}
	return total
}

func marks(leaders map[uint64]*wardenLeader) []tree.Mark {
	var all []tree.Mark
	for _, l := range leaders {
		if l.mark != 0 {
			all = append(all, l.mark)
		}
	}
	return all
}

// await reaps the warden. If the warden does not end in time, it is killed.
func (p *wardenProcess) await() messages.ExitStatus {
	killer := time.AfterFunc(p.options.waits().close, p.kill)
	status := tree.AwaitExit(p.pidfd)
	killer.Stop()
	_ = p.pidfd.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	_, _ = syscall.Wait4(p.pid, nil, 0, nil)
	return exitStatus(status)
}

// kill ends the warden at once.
func (p *wardenProcess) kill() { p.signal(unix.SIGKILL) }

// close lets the warden end everything and waits for it.
func (p *wardenProcess) close() {
	p.mu.Lock()
	p.closing = true
	p.mu.Unlock()
	killer := time.AfterFunc(p.options.waits().close, p.kill)
	defer killer.Stop()
	p.out.Close(p.options.waits().last)
	<-p.gone
}
