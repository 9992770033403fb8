// Command actors does what command plain does when it gets a number, in a program that has a system of actors. So it shows what
// the library of the actors costs, and command embedded what the rest of execbus does.
//
//	go run ./tests/cost/actors 2000
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"

	"github.com/execbus/execbus/actors/kernel"
)

func main() {
	if err := rest(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func rest(ctx context.Context) error {
	count, err := strconv.Atoi(os.Args[len(os.Args)-1])
	if err != nil {
		return err
	}
	system := kernel.NewSystem(slog.New(slog.DiscardHandler), kernel.Options{})
	defer system.Shutdown(ctx)
	if _, err := system.Spawn("idle", func(*kernel.Context) {}); err != nil {
		return err
	}
	for range count {
		if err := exec.Command("/bin/true").Run(); err != nil {
			return err
		}
	}
	fmt.Println("resting")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
