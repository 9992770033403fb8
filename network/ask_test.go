package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/hosts"
)

// desk is where questions come in and answers go out.
type desk struct {
	questions chan Question
	answers   chan error
	withdrawn chan Question
}

func newDesk() *desk {
	return &desk{make(chan Question, 100), make(chan error), make(chan Question, 100)}
}

func (d *desk) ask(ctx context.Context, q Question) error {
	d.questions <- q
	select {
	case err := <-d.answers:
		return err
	case <-ctx.Done():
		d.withdrawn <- q
		return ctx.Err()
	}
}

func asking(t testing.TB, rules ...messages.HostRule) hosts.Snapshot {
	snapshot := snapshotOf(t, rules...)
	snapshot.Default = messages.HostsAsked
	return snapshot
}

// next is the next question.
func next[T any](t testing.TB, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(patience):
		t.Fatal("nothing comes")
	}
	return got
}

// later does something and hands out its result.
func later[T any](act func() T) <-chan T {
	result := make(chan T, 1)
	go func() { result <- act() }()
	return result
}

func TestAnApprovalLetsAConnectionThrough(t *testing.T) {
	d := newDesk()
	r := newRig(t, Options{Ask: d.ask, Snapshot: asking(t)})
	answer := later(func() string { return r.get("good.test", "") })
	q := next(t, d.questions)
	if q.Host.String() != "good.test" || q.Port != 80 || q.Protocol != messages.HostHTTP || q.Why != "no rule names it" || q.Suggestion == nil || q.Suggestion.String() != "allow good.test:80 (http)" {
		t.Errorf("%+v", q)
	}
	if len(r.dialled()) > 0 {
		t.Error("it dialled before the answer")
	}
	snapshot := asking(t)
	snapshot.Grants = []hosts.Grant{{ID: "g1", Host: q.Host, Port: q.Port, Protocol: q.Protocol, Session: true}}
	r.Update(snapshot)
	select { // the grant alone lets the connection through
	case d.answers <- nil:
	case <-d.withdrawn:
	}
	if got := next(t, answer); !strings.HasSuffix(got, "hello from good.test") {
		t.Error(got)
	}
	if record := r.recorded(1)[0]; record.By != "approval g1" || !record.Allowed {
		t.Errorf("%+v", record)
	}
	// It is not asked about again, and a change of other things leaves it alone.
	if got := r.get("good.test", ""); !strings.HasSuffix(got, "hello from good.test") {
		t.Error(got)
	}
	if s := r.Stats(); s.Asked != 1 {
		t.Errorf("%+v", s)
	}
}

func TestADenialIsTold(t *testing.T) {
	d := newDesk()
	r := newRig(t, Options{Ask: d.ask, Snapshot: asking(t)})
	for _, act := range []func() string{
		func() string { return r.get("good.test", "") },
		func() string { _, err := r.tunnel("good.test:443"); return fmt.Sprint(err) },
		func() string {
			_, code := r.socks(socksNamed("good.test", 22))
			return fmt.Sprint("code ", code, " rejected by user")
		},
	} {
		answer := later(act)
		next(t, d.questions)
		d.answers <- errors.New("rejected by user")
		if got := next(t, answer); !strings.Contains(got, "rejected by user") || !strings.Contains(got, "403") && !strings.Contains(got, "code 2") {
			t.Error(got)
		}
	}
	answer := later(func() string { return r.get("good.test", "") })
	next(t, d.questions)
	d.answers <- errors.New("rejected by user")
	if got := next(t, answer); !strings.Contains(got, `"decision":"deny"`) || !strings.Contains(got, `"source":"decider"`) {
		t.Error(got)
	}
	for _, record := range r.recorded(4) {
		if record.Allowed || record.Reason != "rejected by user" || record.Suggestion == nil {
			t.Errorf("%+v", record)
		}
	}
	if len(r.dialled()) > 0 {
		t.Errorf("it dialled %v", r.dialled())
	}
}

// An approval that is not in the snapshot is none: the host has withdrawn it meanwhile.
func TestAnApprovalThatDoesNotHold(t *testing.T) {
	r := newRig(t, Options{Ask: func(context.Context, Question) error { return nil }, Snapshot: asking(t)})
	if got := r.get("good.test", ""); !strings.Contains(got, "the approval no longer holds") {
		t.Error(got)
	}
}

func TestEqualQuestionsAreOne(t *testing.T) {
	d := newDesk()
	r := newRig(t, Options{Ask: d.ask, Snapshot: asking(t)})
	var answers []<-chan string
	for range 5 {
		answers = append(answers, later(func() string { return r.get("good.test", "") }))
	}
	next(t, d.questions)
	waiting(t, r, 5)
	d.answers <- errors.New("no")
	for _, answer := range answers {
		if got := next(t, answer); !strings.Contains(got, "403") {
			t.Error(got)
		}
	}
	if s := r.Stats(); s.Asked != 1 || s.Questions != 0 {
		t.Errorf("%+v", s)
	}
	// A denial is for those that waited.
	again := later(func() string { return r.get("good.test", "") })
	next(t, d.questions)
	d.answers <- errors.New("no")
	next(t, again)
}

// waiting waits until n connections wait for answers.
func waiting(t testing.TB, r *rig, n int) {
	t.Helper()
	for late := time.Now().Add(patience); time.Now().Before(late); time.Sleep(time.Millisecond) {
		sum := 0
		r.Proxy.mu.Lock()
		for _, q := range r.questions {
			sum += q.waiters
		}
		r.Proxy.mu.Unlock()
		if sum == n {
			return
		}
	}
	t.Fatalf("%d connections never wait", n)
}

// Attack 68: a thousand hosts that a person would have to be asked about.
func TestAThousandQuestions(t *testing.T) {
	d := newDesk()
	r := newRig(t, Options{Ask: d.ask, Snapshot: asking(t)})
	var waits []io.Closer
	for i := range MaxQuestions {
		conn := r.connect()
		fmt.Fprintf(conn, "CONNECT h%d.test:443 HTTP/1.1\r\nHost: x\r\n\r\n", i)
		next(t, d.questions)
		waits = append(waits, conn)
	}
	for i := range 1000 - MaxQuestions {
		if got := r.get(fmt.Sprintf("more%d.test", i), ""); !strings.Contains(got, "403") || !strings.Contains(got, "16 other questions wait for an answer") {
			t.Fatal(got)
		}
	}
	// A program that hangs up withdraws its question, which makes room for another.
	for _, wait := range waits {
		wait.Close()
		next(t, d.withdrawn)
	}
	waiting(t, r, 0)
	answer := later(func() string { return r.get("good.test", "") })
	next(t, d.questions)
	d.answers <- errors.New("no")
	next(t, answer)
	if records := r.recorded(1001); len(records) != 1001 {
		t.Errorf("there are %d records", len(records))
	}
}

func TestASOCKSProgramThatHangsUpWithdrawsItsQuestion(t *testing.T) {
	d := newDesk()
	r := newRig(t, Options{Ask: d.ask, Snapshot: asking(t)})
	conn := r.connect()
	io.WriteString(conn, "\x05\x01\x00"+socksNamed("good.test", 443))
	next(t, d.questions)
	conn.Close()
	next(t, d.withdrawn)
	if record := r.recorded(1)[0]; record.Reason != "the program has hung up" {
		t.Errorf("%+v", record)
	}
}

// A change of rules answers those that wait, and leaves other questions as they are.
func TestANewRuleAnswersAQuestion(t *testing.T) {
	d := newDesk()
	r := newRig(t, Options{Ask: d.ask, Snapshot: asking(t)})
	good := later(func() string { return r.get("good.test", "") })
	next(t, d.questions)
	other := later(func() string { return r.get("other.test", "") })
	next(t, d.questions)
	r.Update(asking(t, allowed("good.test", "")))
	if got := next(t, good); !strings.HasSuffix(got, "hello from good.test") {
		t.Error(got)
	}
	if q := next(t, d.withdrawn); q.Host.String() != "good.test" {
		t.Errorf("withdrawn: %+v", q)
	}
	r.Update(asking(t, messages.HostRule{Host: "other.test", Decision: messages.HostForbid}))
	if got := next(t, other); !strings.Contains(got, "a rule forbids other.test:80") {
		t.Error(got)
	}
	if s := r.Stats(); s.Asked != 2 {
		t.Errorf("%+v", s)
	}
}

// Host code that neither answers nor heeds its context keeps nobody waiting.
func TestAQuestionIsNeverAnswered(t *testing.T) {
	leave := make(chan struct{})
	var left sync.WaitGroup
	left.Add(1)
	r := newRig(t, Options{AskTimeout: time.Millisecond, Snapshot: asking(t), Ask: func(context.Context, Question) error {
		defer left.Done()
		<-leave
		return nil
	}})
	if got := r.get("good.test", ""); !strings.Contains(got, "nobody has answered within 1ms") {
		t.Error(got)
	}
	close(leave)
	left.Wait()
}

func TestNobodyCanBeAsked(t *testing.T) {
	r := newRig(t, Options{Snapshot: asking(t)})
	if got := r.get("good.test", ""); !strings.Contains(got, "no rule names it, and nobody is there to be asked") || !strings.Contains(got, `"decision":"ask"`) || !strings.Contains(got, `"source":"decider"`) {
		t.Error(got)
	}
}

// What a rule forbids and where names lead is never asked about.
func TestWhatIsNeverAskedAbout(t *testing.T) {
	r := newRig(t, Options{Snapshot: asking(t, messages.HostRule{Host: "forbidden.test", Decision: messages.HostForbid}, allowed("private.test", "")), Ask: func(_ context.Context, q Question) error {
		t.Errorf("it asks %+v", q)
		return errors.New("no")
	}})
	for _, host := range []string{"forbidden.test", "private.test", "127.0.0.1", "10.0.0.1", "169.254.169.254", "localhost", "a.localhost", "[::1]", "224.0.0.1"} {
		if got := r.get(host, ""); !strings.Contains(got, "403") {
			t.Errorf("%s: %s", host, got)
		}
	}
}

func TestTheEndOfTheProxyEndsQuestions(t *testing.T) {
	d := newDesk()
	r := newRig(t, Options{Ask: d.ask, Snapshot: asking(t)})
	answer := later(func() string { return r.get("good.test", "") })
	next(t, d.questions)
	r.Close()
	next(t, d.withdrawn)
	next(t, answer)
	if record := r.recorded(1)[0]; record.Allowed || record.Reason == "" {
		t.Errorf("%+v", record)
	}
}
