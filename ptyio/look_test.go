package ptyio

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

func TestLooksAreBoundedAndCanBeLeft(t *testing.T) {
	launch := Launch{Argv: []string{"program"}, Dir: "/"}
	answer := make(chan struct{})
	var waiting sync.WaitGroup
	for range cap(looking) {
		waiting.Go(func() {
			if got, err := look(context.Background(), launch, func() (int, error) { <-answer; return 7, nil }); got != 7 || err != nil {
				t.Errorf("%d, %v", got, err)
			}
		})
	}
	for len(looking) < cap(looking) {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := look(ctx, launch, func() (int, error) { t.Error("one too many"); return 0, nil }); !errors.Is(err, messages.ErrCancelled) {
		t.Errorf("%v", err)
	}
	close(answer)
	waiting.Wait()
	if got, err := look(context.Background(), launch, func() (int, error) { return 8, errors.New("why") }); got != 8 || err == nil {
		t.Errorf("%d, %v", got, err)
	}
}
