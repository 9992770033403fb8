package sandbox

import (
	"os"
	"syscall"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox/internal/tree"
	"github.com/execbus/execbus/sandbox/internal/wire"
)

// serve reads replies until the warden is gone, and then says what has become of its children.
func (p *wardenProcess) serve() {
	defer close(p.gone)
	for {
		var reply wire.Reply
		if err := p.conn.Receive(&reply); err != nil {
			break
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
	}
	if reply.Started != nil {
		l.pid, l.mark = reply.Started.PID, tree.Mark(reply.Started.Mark)
	}
	l.exited = l.exited || reply.Exited != nil
	late := l.abandoned && reply.Started != nil
	exited := l.exited
	p.mu.Unlock()
	switch {
	case late:
		l.EndTree(0)
	case reply.Started != nil:
		l.reply <- nil
	case reply.Failed != nil:
		l.reply <- reply.Failed.Errno
	case reply.Exited != nil:
		l.spec.Exited(*reply.Exited, nil)
	case reply.Ended != nil:
		if !exited {
			l.spec.Exited(messages.NoStatus, &messages.Error{Code: messages.CodeRuntimeFailure, Op: "end",
				Detail: "the leader could not be killed"})
		}
		l.spec.TreeEnded(*reply.Ended)
	}
}

// bury waits for the warden's end, searches for what its trees left, and reports each child's end.
func (p *wardenProcess) bury() {
	p.mu.Lock()
	p.dead = true
	expected := p.closing
	left := p.leaders
	p.leaders = map[uint64]*wardenLeader{}
	p.mu.Unlock()
	_ = p.conn.Close()
	status := p.await()
	total, children := messages.TreeReport{}, 0
	reports := tree.EndMarked(marks(left))
	for _, l := range left {
		if l.pid == 0 {
			l.reply <- errWardenLost()
			continue
		}
		children++
		report := reports[l.mark]
		total.Ended += report.Ended
		total.Survivors = append(total.Survivors, report.Survivors...)
		if !l.exited {
			l.spec.Exited(messages.NoStatus, errWardenLost())
		}
		l.spec.TreeEnded(report)
	}
	words := make([]byte, lostOutput)
	n, _ := p.stderr.ReadAt(words, max(0, size(p.stderr)-lostOutput))
	_ = p.stderr.Close()
	if p.lost != nil && !expected {
		p.lost(WardenLost{PID: p.pid, Status: status, Children: children, Tree: total, Output: string(words[:n])})
	}
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

func size(file *os.File) int64 {
	info, err := file.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// await reaps the warden; one that does not end in time is killed.
func (p *wardenProcess) await() messages.ExitStatus {
	killer := time.AfterFunc(closeWait, func() { _ = syscall.Kill(p.pid, syscall.SIGKILL) })
	status := tree.AwaitExit(p.pidfd)
	killer.Stop()
	_ = p.pidfd.Close()
	_, _ = syscall.Wait4(p.pid, nil, 0, nil)
	return status
}

// close lets the warden end everything and waits for it.
func (p *wardenProcess) close() error {
	p.mu.Lock()
	p.closing = true
	p.mu.Unlock()
	_ = p.conn.CloseWrite()
	killer := time.AfterFunc(closeWait, func() { _ = syscall.Kill(p.pid, syscall.SIGKILL) })
	defer killer.Stop()
	<-p.gone
	return nil
}
