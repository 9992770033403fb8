//go:build linux

package ptyio

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

// gone is a leader that has ended.
type gone struct{}

func (gone) PID() int                         { return 1 << 22 }
func (gone) Signal(syscall.Signal, int) error { return syscall.ESRCH }
func (gone) EndTree(time.Duration)            {}
func (gone) Enforced() *messages.Enforcement  { return nil }

// A starter may report the birth, and with it the whole life of a command, before Start returns.
func TestACommandThatIsOverAtItsBirthReportsAllOfItsLife(t *testing.T) {
	for _, early := range []bool{true, false} {
		for _, output := range []string{"", "hello"} {
			t.Run(fmt.Sprintf("early=%v,output=%q", early, output), func(t *testing.T) {
				before := countDescriptors(t)
				events := &lives{over: make(chan struct{})}
				launch := Launch{Argv: []string{"/bin/true"}, Dir: "/", Events: events.note}
				child, err := Spawn(t.Context(), launch, fakeStarter(func(_ context.Context, start Start) (Leader, error) {
					if _, err := start.Files[1].WriteString(output); err != nil {
						t.Error(err)
					}
					if early {
						start.Taken()
						start.Born(gone{})
						start.Exited(messages.StatusExited(0), nil)
						start.TreeEnded(messages.TreeReport{})
					} else {
						time.AfterFunc(0, func() {
							start.Exited(messages.StatusExited(0), nil)
							start.TreeEnded(messages.TreeReport{})
						})
					}
					return gone{}, nil
				}))
				if err != nil || child.PID() != (gone{}).PID() {
					t.Fatal(child, err)
				}
				<-events.over
				if events.output != output {
					t.Errorf("output %q", events.output)
				}
				slices.Sort(events.others)
				if got := fmt.Sprint(events.others); got != "[ptyio.Closed ptyio.Drained ptyio.Exited ptyio.Spawned ptyio.TreeEnded]" || events.first != "ptyio.Spawned" {
					t.Errorf("events %s, the first %s", got, events.first)
				}
				if now := countDescriptors(t); now != before {
					t.Errorf("%d descriptors more", now-before)
				}
			})
		}
	}
}

// lives are the events of a child.
type lives struct {
	mu            sync.Mutex
	first, output string
	others        []string
	over          chan struct{} // closed at the fifth event besides Output
}

func (l *lives) note(event Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := fmt.Sprintf("%T", event)
	if l.first == "" {
		l.first = name
	}
	if o, is := event.(Output); is {
		l.output += string(o.Bytes)
		o.Release()
		return
	}
	if l.others = append(l.others, name); len(l.others) == 5 {
		close(l.over)
	}
}
