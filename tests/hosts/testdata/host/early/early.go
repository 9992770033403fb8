// Package early is initialised before the warden takes over: its path sorts first, and it imports nothing that takes long.
package early

import (
	"os"
	"strconv"
	"syscall"
	"time"
)

func init() {
	inWarden := os.Args[0] == "execbus-warden"
	switch os.Getenv("EARLY") {
	case "variable":
		if os.Getenv("NEEDED") == "" {
			panic("NEEDED is not set")
		}
	case "print":
		print(inWarden)
	case "port":
		listen()
	case "panic":
		if inWarden {
			panic("this is no good place")
		}
	case "hang":
		if inWarden {
			time.Sleep(time.Hour)
		}
	}
}

// print prints a line on both outputs. In the warden it prints more than a pipe holds.
func print(inWarden bool) {
	lines := 1
	if inWarden {
		lines = 100_000
	}
	for fd := 1; fd <= 2; fd++ {
		for range lines {
			if _, err := syscall.Write(fd, []byte("early "+strconv.Itoa(fd)+"\n")); err != nil {
				panic(err)
			}
		}
	}
}

func listen() {
	port, err := strconv.Atoi(os.Getenv("PORT"))
	if err != nil {
		panic(err)
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		panic(err)
	}
	if err := syscall.Listen(fd, 1); err != nil {
		panic(err)
	}
}
