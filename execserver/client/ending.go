package client

import (
	"errors"
	"path"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// exit reports the leader's exit.
func (p *pump) exit(e exit) {
	p.exited = true
	told := ptyio.Exited{Status: messages.StatusNone(), Denial: e.denial, Limit: e.limit}
	switch {
	case e.lost != "":
		told.Lost = failed("follow process", e.lost)
	case e.status != nil:
		told.Status = *e.status
	case e.known && e.code >= 0 && e.code <= 255:
		told.Status = messages.StatusExited(e.code)
	default:
		told.Lost = failed("follow process", "the server does not know how the process has exited")
	}
	if told.Denial == nil && e.denied {
		told.Denial = &messages.Denial{FromText: true} // the server may have it from the output
	}
	p.launch.Events(told)
	if !p.feed.flow && p.launch.OnLeaderExit != messages.LeaderExitKeepsTree { // such a server keeps what the leader left behind
		p.terminate(ptyio.DefaultGrace)
	}
}

// drain reports that the leader's output is complete.
func (p *pump) drain() {
	if !p.drained {
		p.drained = true
		p.launch.Events(ptyio.Drained{})
	}
}

// close reports that no more output will come.
func (p *pump) close() {
	p.drain()
	p.closed = true
	p.launch.Events(ptyio.Closed{})
}

// end reports the end of the tree, the last event. Its receiver must find that the process is over.
func (p *pump) end(tree messages.TreeReport) {
	if p.over {
		return
	}
	p.over = true
	close(p.ended)
	p.input.close()
	p.launch.Events(ptyio.TreeEnded{TreeReport: tree})
}

// lose ends a process about which the client can learn nothing more. The process may live on.
func (p *pump) lose(err error) {
	if !p.exited {
		p.exit(exit{lost: err.Error()})
	}
	if !p.closed {
		p.close()
	}
	if errors.Is(err, errNotStarted) {
		p.end(messages.TreeReport{})
		return
	}
	p.terminate(0)
	name := path.Base(p.launch.Argv[0])
	p.end(messages.TreeReport{Survivors: []messages.Survivor{{PID: p.pid, Name: name[:min(len(name), 15)],
		Why: "nobody knows whether it has ended: " + err.Error()}}})
}
