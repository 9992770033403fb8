// Command actors does what command plain does when it gets a number, in a program that has a system of actors. So it shows what
// the library of the actors costs, and command embedded what the rest of execbus does.
//
//	go run ./tests/cost/actors 2000
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"

	"github.com/execbus/execbus/actors/kernel"
	"github.com/execbus/execbus/tests/cost/rest"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	system := kernel.NewSystem(slog.New(slog.DiscardHandler), kernel.Options{})
	defer system.Shutdown(ctx)
	if _, err := system.Spawn("idle", func(*kernel.Context) {}); err != nil {
		return err
	}
	return rest.After(os.Args[len(os.Args)-1], func() error { return exec.Command("/bin/true").Run() })
}
