// Command embedded runs a command with execbus. The test of package cost measures it.
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
)

func main() {
	if err := hello(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// The test wants to know whether importing execbus puts this page on the default mux.
	_, pattern := http.DefaultServeMux.Handler(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/debug/vars"}})
	fmt.Printf("mux %s\n", pattern)
}

func hello(ctx context.Context) error {
	rt, err := execbus.Start(execbus.Options{})
	if err != nil {
		return err
	}
	defer rt.Shutdown(ctx)
	session, err := rt.OpenSession(execbus.SessionOptions{})
	if err != nil {
		return err
	}
	result, err := session.Run(ctx, messages.RunCommand{Argv: []string{"echo", "hello"}})
	if err != nil {
		return err
	}
	fmt.Printf("%s", result.Aggregated)
	return nil
}
