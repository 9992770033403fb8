package network

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"
)

// sink is a server that reads all that comes, or, with idle, nothing.
func sink(b testing.TB, idle bool) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var group sync.WaitGroup
	var conns []net.Conn
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns = append(conns, conn)
			if !idle {
				group.Go(func() {
					buffer := make([]byte, 256<<10)
					for {
						if _, err := conn.Read(buffer); err != nil {
							conn.Close()
							return
						}
					}
				})
			}
		}
	})
	b.Cleanup(func() {
		listener.Close()
		group.Wait()
		for _, conn := range conns {
			conn.Close()
		}
	})
	return listener.Addr().String()
}

// bare is a relay in Go that does nothing else.
func bare(b testing.TB, to string) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { listener.Close() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				return
			}
			go func() { io.Copy(far, near); far.Close() }()
			go func() { io.Copy(near, far); near.Close() }()
		}
	}()
	return listener.Addr().String()
}

func BenchmarkRelay(b *testing.B) {
	const piece = 64 << 10
	for _, through := range []string{"bare", "proxy"} {
		b.Run(through, func(b *testing.B) {
			r := newRig(b, Options{})
			server := sink(b, false)
			r.servers[goodAddress+":22"] = server
			var conn net.Conn
			var err error
			if through == "bare" {
				conn, err = net.Dial("tcp", bare(b, server))
			} else {
				conn, err = r.tunnel("good.test:22")
			}
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			buffer := make([]byte, piece)
			b.SetBytes(piece)
			for b.Loop() {
				if _, err := conn.Write(buffer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFirstByte is from the connection to the first byte that comes back, directly and by a tunnel.
func BenchmarkFirstByte(b *testing.B) {
	r := newRig(b, Options{MaxConnections: 1 << 16})
	first := func(conn net.Conn, err error) {
		if err != nil {
			b.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			b.Fatal(err)
		}
		conn.(*net.TCPConn).SetLinger(0) // so that ports do not run out
		conn.Close()
	}
	b.Run("direct", func(b *testing.B) {
		for b.Loop() {
			first(net.Dial("tcp", r.servers[goodAddress+":22"]))
		}
	})
	for _, way := range []string{"CONNECT", "SOCKS"} {
		b.Run(way, func(b *testing.B) {
			for b.Loop() {
				conn, err := net.Dial("tcp", r.address)
				if err != nil {
					b.Fatal(err)
				}
				if way == "SOCKS" {
					io.WriteString(conn, "\x05\x01\x00"+socksNamed("good.test", 22))
					io.ReadFull(conn, make([]byte, 12))
				} else {
					fmt.Fprint(conn, "CONNECT good.test:22 HTTP/1.1\r\nHost: good.test\r\n\r\n")
					io.ReadFull(conn, make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n")))
				}
				first(conn, nil)
			}
		})
	}
	b.Run("CONNECT at once", func(b *testing.B) {
		b.RunParallel(func(each *testing.PB) {
			for each.Next() {
				conn, err := net.Dial("tcp", r.address)
				if err != nil {
					b.Error(err)
					return
				}
				fmt.Fprint(conn, "CONNECT good.test:22 HTTP/1.1\r\nHost: good.test\r\n\r\n")
				io.ReadFull(conn, make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n")+1))
				conn.(*net.TCPConn).SetLinger(0)
				conn.Close()
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "connections/s")
	})
}

// BenchmarkIdleTunnels measures memory of a tunnel through which TLS has begun, with both of its ends, which are in the same process.
func BenchmarkIdleTunnels(b *testing.B) {
	const tunnels = 2000
	r := newRig(b, Options{MaxConnections: 2 * tunnels, halfOpen: time.Millisecond})
	r.servers[goodAddress+":443"] = sink(b, true)
	var first recorder
	tls.Client(&first, &tls.Config{ServerName: "good.test"}).Handshake()
	used := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	for b.Loop() {
		before, goroutines := used(), runtime.NumGoroutine()
		var conns []net.Conn
		for range tunnels {
			conn, err := r.tunnel("good.test:443")
			if err != nil {
				b.Fatal(err)
			}
			conn.Write(first.Bytes())
			conns = append(conns, conn)
		}
		for open := 0; open < tunnels-10; { // until nearly every first message was read
			open = (runtime.NumGoroutine() - goroutines) / 2
			runtime.Gosched()
		}
		b.ReportMetric(float64(used()-before)/tunnels/1024, "KiB/tunnel")
		for _, conn := range conns {
			conn.Close()
		}
		for runtime.NumGoroutine() > goroutines+10 {
			runtime.Gosched()
		}
	}
}
