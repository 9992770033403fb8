// Command embedded runs a command with execbus. The test of package cost measures it. With a number, it runs that many commands
// that do nothing, and rests until its standard input ends; the bench then measures its memory.
//
//	go run ./tests/cost/embedded
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

func main() {
	do := hello
	if len(os.Args) > 1 {
		do = rest
	}
	if err := do(context.Background()); err != nil {
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

func rest(ctx context.Context) error {
	count, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return err
	}
	rt, err := execbus.Start(execbus.Options{})
	if err != nil {
		return err
	}
	defer rt.Shutdown(ctx)
	session, err := rt.OpenSession(execbus.SessionOptions{})
	if err != nil {
		return err
	}
	for range count {
		if _, err := session.Exec(ctx, messages.ExecCommand{Argv: []string{"/bin/true"}}); err != nil {
			return err
		}
	}
	fmt.Println("resting")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
