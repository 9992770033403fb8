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
			if got, err := look(context.Background(), launch, func(name, _, _ string) (string, error) { <-answer; return name, nil }); got != "program" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	for len(looking) < cap(looking) {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := look(ctx, launch, func(_, _, _ string) (string, error) { t.Error("one too many"); return "", nil }); !errors.Is(err, messages.ErrCancelled) {
		t.Errorf("%v", err)
	}
	close(answer)
	waiting.Wait()
	if got, err := look(context.Background(), launch, func(_, dir, _ string) (string, error) { return dir, errors.New("why") }); got != "/" || err == nil {
		t.Errorf("%q, %v", got, err)
	}
}
