// Command embedded runs a command with execbus. The test of package cost measures it. With a number, it runs that many commands
// that do nothing, and rests until its standard input ends; the bench then measures its memory.
//
//	go run ./tests/cost/embedded
package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/cost/rest"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// The test wants to know whether importing execbus puts this page on the default mux.
	_, pattern := http.DefaultServeMux.Handler(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/debug/vars"}})
	fmt.Printf("mux %s\n", pattern)
}

func run(ctx context.Context) error {
	rt, err := execbus.Start(execbus.Options{})
	if err != nil {
		return err
	}
	defer rt.Shutdown(ctx)
	session, err := rt.OpenSession(execbus.SessionOptions{})
	if err != nil {
		return err
	}
	if len(os.Args) > 1 {
		return rest.After(os.Args[1], func() error {
			_, err := session.Exec(ctx, messages.ExecCommand{Argv: []string{"/bin/true"}})
			return err
		})
	}
	result, err := session.Run(ctx, messages.RunCommand{Argv: []string{"echo", "hello"}})
	if err != nil {
		return err
	}
	fmt.Printf("%s", result.Aggregated)
	return nil
}
