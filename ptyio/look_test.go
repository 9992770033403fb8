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
	answer := make(chan struct{})
	var waiting sync.WaitGroup
	for range cap(looking) {
		waiting.Go(func() {
			if got, err := look(context.Background(), "it", func() (string, error) { <-answer; return "there", nil }); got != "there" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	for len(looking) < cap(looking) {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := look(ctx, "it", func() (string, error) { t.Error("one too many"); return "", nil }); !errors.Is(err, messages.ErrCancelled) {
		t.Errorf("%v", err)
	}
	for name, ask := range map[string]func() error{
		"program": func() error { _, err := Local().Program(ctx, "sh", "/", "/bin"); return err },
		"file":    func() error { _, err := Local().IsFile(ctx, "/etc/passwd"); return err },
		"dir":     func() error { _, err := Local().IsDir(ctx, "/etc"); return err },
	} {
		if err := ask(); !errors.Is(err, messages.ErrCancelled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	close(answer)
	waiting.Wait()
	if got, err := look(context.Background(), "it", func() (string, error) { return "found", errors.New("why") }); got != "found" || err == nil {
		t.Errorf("%q, %v", got, err)
	}
}
