package client

import (
	"context"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox"
)

// ways are the spawners to compare: the local one, and a client of a server in this process.
var ways = map[string]func(b *testing.B) ptyio.Spawner{
	"here": func(b *testing.B) ptyio.Spawner {
		machine, err := sandbox.New(sandbox.Options{Direct: true})
		if err != nil {
			b.Fatal(err)
		}
		return machine
	},
	"websocket": func(b *testing.B) ptyio.Spawner {
		dial, _ := socketWay(b, newServer(b), 0, nil)
		return over(b, dial)
	},
	"lines": func(b *testing.B) ptyio.Spawner {
		dial, _ := lineWay(b, newServer(b), 0, nil)
		return over(b, dial)
	},
}

func over(b *testing.B, dial dialer) ptyio.Spawner {
	s, err := begin(context.Background(), dial, "", usualTimes(), usualLimits())
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// compared runs a benchmark in each way. On the way through a socket, a goroutine in between copies the bytes.
func compared(b *testing.B, run func(b *testing.B, s ptyio.Spawner)) {
	for _, name := range []string{"here", "lines", "websocket"} {
		b.Run(name, func(b *testing.B) {
			s := ways[name](b)
			b.Cleanup(func() {
				if err := s.Close(); err != nil {
					b.Error(err)
				}
			})
			run(b, s)
		})
	}
}

func benched(b *testing.B, s ptyio.Spawner, tty bool, argv ...string) *log {
	b.Helper()
	l := newLog()
	child, err := s.Spawn(b.Context(), ptyio.Launch{Argv: argv, Env: []string{"PATH=/bin:/usr/bin"}, Dir: "/", TTY: tty, OpenStdin: true, Events: l.receive})
	if err != nil {
		b.Fatal(err)
	}
	l.Child = child
	return l
}

func BenchmarkTrue(b *testing.B) {
	compared(b, func(b *testing.B, s ptyio.Spawner) {
		for b.Loop() {
			benched(b, s, false, "true").ended(b)
		}
	})
}

func BenchmarkEcho(b *testing.B) {
	compared(b, func(b *testing.B, s ptyio.Spawner) {
		l := benched(b, s, false, "cat")
		n := 0
		for b.Loop() {
			n++
			l.Write([]byte("x"), time.Time{}, func(ptyio.Taken, error) {})
			l.await(b, "the echo", func() bool { return l.output.Len() >= n })
		}
		l.EndTree(0)
		l.ended(b)
	})
}

func BenchmarkFlood(b *testing.B) {
	const size = 256 << 20
	for _, tty := range []bool{false, true} {
		b.Run(map[bool]string{false: "pipes", true: "pty"}[tty], func(b *testing.B) {
			compared(b, func(b *testing.B, s ptyio.Spawner) {
				b.SetBytes(size)
				for b.Loop() {
					l := newLog()
					var got int64
					done := make(chan struct{})
					_, err := s.Spawn(b.Context(), ptyio.Launch{Argv: []string{"sh", "-c", "stty raw 2>/dev/null; head -c 268435456 /dev/zero"}, Env: []string{"PATH=/bin:/usr/bin"},
						Dir: "/", TTY: tty, Events: func(e ptyio.Event) {
							switch e := e.(type) {
							case ptyio.Output:
								got += int64(len(e.Bytes))
								e.Release()
							case ptyio.Closed:
								close(done)
							default:
								l.receive(e)
							}
						}})
					if err != nil {
						b.Fatal(err)
					}
					<-done
					if exited, _ := l.ended(b); got != size || exited.Status != messages.StatusExited(0) {
						b.Errorf("%d bytes, %+v", got, exited)
					}
				}
			})
		})
	}
}
