//go:build linux

package ptyio_test

import (
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

func TestMergedStreamsKeepTheOrderOfTheWrites(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		const times = 500
		l := shell(false, "i=0; while [ $i -lt 500 ]; do echo out; echo err >&2; echo out2; i=$((i+1)); done")
		l.Merged = true
		r := start(t, spawner, l)
		r.awaitEnd(t)
		if got := r.text(); got != strings.Repeat("out\nerr\nout2\n", times) {
			t.Errorf("wrong order: %.200q", got)
		}
	})
}

func TestMergedOutputIsBoundedLikeAnyOther(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		l := shell(false, "yes & yes >&2")
		l.Merged = true
		r := startHolding(t, spawner, l, true)
		r.await(t, "all credits are out", func() bool { return len(r.held) == ptyio.Credits })
		r.EndTree(0)
		r.release()
		r.awaitEnd(t)
		if most := r.most(); most != ptyio.Credits {
			t.Errorf("%d batches were out", most)
		}
	})
}

func TestATerminalIsMergedAnyway(t *testing.T) {
	both(t, func(t *testing.T, spawner ptyio.Spawner) {
		l := shell(true, "echo out; echo err >&2; test -t 0 && test -t 1 && test -t 2 && echo tty")
		l.Merged = true
		r := start(t, spawner, l)
		r.awaitEnd(t)
		if got := r.output[messages.StreamPTY].String(); got != "out\r\nerr\r\ntty\r\n" {
			t.Errorf("%q", got)
		}
	})
}
