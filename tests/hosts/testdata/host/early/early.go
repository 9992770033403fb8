// Package early is initialised before the warden takes over: its path comes first, and it imports nothing that takes long.
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
