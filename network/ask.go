package network

import (
	"context"
	"errors"
	"fmt"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/hosts"
)

// Question is put to a person about a connection.
type Question struct {
	Process  messages.ProcessID // zero if the connection did not say
	Host     hosts.Host
	Port     uint16
	Protocol messages.HostProtocol
	// Why says why there is a question.
	Why string
	// Suggestion is the smallest rule that would allow it; nil if a rule asks, which no other outweighs.
	Suggestion *messages.HostRule
}

// questionKey is what equal questions have in common.
type questionKey struct {
	process  messages.ProcessID
	host     hosts.Host
	port     uint16
	protocol messages.HostProtocol
}

// question is one for which connections wait.
type question struct {
	ctx     context.Context
	cancel  context.CancelFunc
	answer  error // before answered is closed
	done    chan struct{}
	waiters int
}

// judge decides about a connection, and asks if need be.
func (p *Proxy) judge(ctx context.Context, request hosts.Request) (hosts.Verdict, error) {
	approved := false
	for {
		snapshot, changed := p.current()
		v := snapshot.Decide(request)
		switch {
		case v.Action == hosts.Allow:
			return v, nil
		case v.Action == hosts.Deny:
			return v, denied(v)
		case approved:
			return v, refused(v, "it was approved, and the approval no longer holds")
		}
		var err error
		if approved, err = p.ask(ctx, request, v, changed); err != nil {
			r := refused(v, err.Error())
			if _, said := err.(answer); said {
				r.decision = "deny"
			}
			return v, r
		}
	}
}

// answer is why a connection is refused, in the words of the person who was asked.
type answer struct{ error }

// ask waits for an answer, or for a change of rules and approvals that makes it needless.
func (p *Proxy) ask(ctx context.Context, request hosts.Request, v hosts.Verdict, changed <-chan struct{}) (approved bool, err error) {
	if p.options.Ask == nil {
		return false, errors.New(v.Text + ", and nobody is there to be asked")
	}
	key := questionKey{request.Process, request.Host, request.Port, v.Protocol}
	q, err := p.join(key, v)
	if err != nil {
		return false, err
	}
	defer p.leave(key, q)
	for {
		select {
		case <-q.done:
			return q.answer == nil, q.answer
		case <-changed:
			var snapshot hosts.Snapshot
			if snapshot, changed = p.current(); snapshot.Decide(request).Action != hosts.Ask {
				return false, nil
			}
		case <-ctx.Done():
			return false, errors.New("the program has hung up")
		case <-q.ctx.Done():
			select {
			case <-q.done: // its answer also ends its context
				return q.answer == nil, q.answer
			default:
			}
			if p.ended.Err() != nil {
				return false, errEnded
			}
			return false, fmt.Errorf("nobody has answered within %v", p.options.AskTimeout)
		}
	}
}

// join waits with others that ask the same, or puts the question.
func (p *Proxy) join(key questionKey, v hosts.Verdict) (*question, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.questions[key]; q != nil {
		q.waiters++
		return q, nil
	}
	if p.asking >= MaxQuestions {
		return nil, fmt.Errorf("%d other questions wait for an answer", p.asking)
	}
	q := &question{done: make(chan struct{}), waiters: 1}
	q.ctx, q.cancel = context.WithTimeout(p.ended, p.options.AskTimeout)
	p.questions[key] = q
	p.asking++
	p.stats.Asked++
	go func() {
		err := p.options.Ask(q.ctx, Question{key.process, key.host, key.port, key.protocol, v.Text, v.Suggestion})
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asking--
		p.forget(key, q)
		if q.ctx.Err() == nil {
			if err != nil {
				q.answer = answer{err}
			}
			close(q.done)
		}
		q.cancel()
	}()
	return q, nil
}

// leave withdraws the question if nobody waits for it any more.
func (p *Proxy) leave(key questionKey, q *question) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q.waiters--; q.waiters == 0 {
		p.forget(key, q)
		q.cancel()
	}
}

// forget takes a question off the list, so that the next connection asks anew.
func (p *Proxy) forget(key questionKey, q *question) {
	if p.questions[key] == q {
		delete(p.questions, key)
	}
}
