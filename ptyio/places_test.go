package ptyio

import (
	"testing"
	"testing/synctest"
	"time"
)

// state returns how many places are free and how many callers wait.
func (p *places) state() (room, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.room, len(p.waiting)
}

func TestLooksThatDoNotAnswerHardlyKeepOthersWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const dead = 240
		p := newPlaces(2)
		answer := make(chan struct{})
		for range dead {
			go func() {
				over := p.takeForALook()
				<-answer
				over()
			}()
		}
		synctest.Wait()
		begin := time.Now()
		over := p.takeForALook()
		took := time.Since(begin)
		over()
		t.Logf("%d looks that do not answer delayed another by %v", dead, took)
		if took > 7*longLook { // if they had to wait for each other, it would be dead/2
			t.Errorf("it waited for %v", took)
		}
		close(answer)
		synctest.Wait()
		if room, waiting := p.state(); room != 2 || waiting != 0 {
			t.Errorf("%d places are free, and %d wait", room, waiting)
		}
	})
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
