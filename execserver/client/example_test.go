package client_test

import (
	"context"
	"fmt"
	"net"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/execserver"
	"github.com/execbus/execbus/execserver/client"
	"github.com/execbus/execbus/messages"
)

// The server is in this process here. Elsewhere it is "execbus serve", and Dial connects to it.
func Example() {
	machine, err := execbus.NewSpawner()
	if err != nil {
		panic(err)
	}
	defer machine.Close()
	server, err := execserver.NewServer(machine, execserver.Options{})
	if err != nil {
		panic(err)
	}
	defer server.Close()

	here, there := net.Pipe() // or the streams of a server that was started with ssh
	go server.ServeStream(context.Background(), there, there)
	remote, err := client.Connect(context.Background(), here, here, client.Options{})
	if err != nil {
		panic(err)
	}
	runtime, err := execbus.Start(execbus.Options{Spawner: remote})
	if err != nil {
		panic(err)
	}
	defer runtime.Shutdown(context.Background())
	session, err := runtime.OpenSession(execbus.SessionOptions{Dir: "/"})
	if err != nil {
		panic(err)
	}
	result, err := session.Exec(context.Background(), messages.ExecCommand{Argv: []string{"echo", "hello from there"}})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s%s\n", result.Output, result.Status)
	// Output:
	// hello from there
	// code(0)
}
