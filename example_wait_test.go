package execbus_test

import (
	"context"
	"fmt"

	"github.com/execbus/execbus/messages"
)

func ExampleSession_Wait() {
	session, shut := open()
	defer shut()
	ctx := context.Background()
	var both messages.AwaitExit
	for _, script := range []string{"exit 1", "exit 2"} {
		started, err := session.Exec(ctx, messages.ExecCommand{Script: script, NoWait: true})
		if err != nil {
			fmt.Println(err)
			return
		}
		both.Processes = append(both.Processes, started.Process)
	}
	exits, err := session.Wait(ctx, both)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, exit := range exits {
		fmt.Println(exit.Status)
	}
	// Unordered output:
	// code(1)
	// code(2)
}
