package execbus_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

func ExampleSession_Start() {
	session, shut := open()
	defer shut()
	ctx := context.Background()
	p, err := session.Start(ctx, messages.ExecCommand{Argv: []string{"sort"}, OpenStdin: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := io.Copy(p, strings.NewReader("pear\napple\n")); err != nil {
		fmt.Println(err)
	}
	if err := p.CloseStdin(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println(p.Wait(ctx))
	result, err := p.Poll(ctx, messages.Poll{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s", result.Output)
	// Output:
	// code(0) <nil>
	// apple
	// pear
}

func ExampleProcess_Follow() {
	session, shut := open()
	defer shut()
	ctx := context.Background()
	p, err := session.Start(ctx, messages.ExecCommand{Script: "echo 1; echo 2 >&2; read line; echo $line", OpenStdin: true, Login: new(false)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Fprintln(p, "3")
	all := map[messages.Stream]string{}
	for event, err := range p.Follow(ctx, 0) { // from the first byte, however late this begins
		if err != nil {
			fmt.Println(err)
			return
		}
		switch e := event.(type) {
		case messages.OutputDelta:
			all[e.Stream] += string(e.Bytes)
		case messages.Gap:
			fmt.Println(e) // this loop was too slow
		}
	}
	fmt.Printf("%q %q\n", all[messages.StreamStdout], all[messages.StreamStderr])
	// Output:
	// "1\n3\n" "2\n"
}

func ExampleSession_Process() {
	session, shut := open()
	defer shut()
	ctx := context.Background()
	result, err := session.Exec(ctx, messages.ExecCommand{Argv: []string{"sleep", "1000"}, Yield: new(time.Duration)})
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := session.Process(ctx, result.Process)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Status())
	fmt.Println(p.Terminate(ctx))
	fmt.Println(p.Status())
	// Output:
	// none false
	// terminated by user, signal(15) <nil>
	// signal(15) true
}

func ExampleSession_Executor() {
	session, shut := open()
	defer shut()
	ctx := context.Background()
	process, err := session.Executor().Spawn(ctx, execbus.SpawnRequest{ProcessID: "cat-1", Dir: "/",
		Argv: []string{"bash", "-c", `read line; echo "$GREETING $line"; exit 3`}, Env: map[string]string{"GREETING": "hello"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Fprintln(process, "world")
	for event, err := range process.Follow(ctx, 0) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if delta, ok := event.(messages.OutputDelta); ok { // otherwise messages.Gap
			fmt.Printf("%s: %s", delta.Stream, delta.Bytes)
		}
	}
	fmt.Println(process.Wait(ctx))
	// Output:
	// stdout: hello world
	// code(3) <nil>
}
