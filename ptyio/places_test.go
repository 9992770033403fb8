package ptyio

import (
	"sync"
	"testing"
	"time"
)

// state returns how many places are free and how many callers wait.
func (p *places) state() (room, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.room, len(p.waiting)
}

func TestLooksThatDoNotAnswerHardlyKeepOthersWaiting(t *testing.T) {
	const dead = 240
	p := newPlaces(2)
	answer := make(chan struct{})
	var all sync.WaitGroup
	for range dead {
		all.Go(func() {
			over := p.takeForALook()
			<-answer
			over()
		})
	}
	for _, waiting := p.state(); waiting < dead/2; _, waiting = p.state() { // until most are there
		time.Sleep(time.Millisecond)
	}
	begin := time.Now()
	over := p.takeForALook()
	took := time.Since(begin)
	over()
	t.Logf("%d looks that do not answer delayed another by %v", dead, took)
	if took > dead*longLook/2/3 { // if they had to wait for each other, they would take all of it
		t.Errorf("it waited for %v", took)
	}
	close(answer)
	all.Wait()
	late := time.Now().Add(10 * time.Second) // the last timers may still have to run
	for room, waiting := p.state(); room != 2 || waiting != 0; room, waiting = p.state() {
		if time.Now().After(late) {
			t.Fatalf("%d places are free, and %d wait", room, waiting)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestPlacesAreBounded(t *testing.T) {
	p := newPlaces(2)
	p.take()
	p.take()
	third := make(chan struct{})
	go func() { p.take(); close(third) }()
	for _, waiting := p.state(); waiting == 0; _, waiting = p.state() {
		time.Sleep(time.Millisecond)
	}
	select {
	case <-third:
		t.Error("a third has found a place")
	default:
	}
	p.give(1)
	<-third
	p.give(2)
	if room, _ := p.state(); room != 2 {
		t.Errorf("%d places are free", room)
	}
}
