// Command plain does with package os/exec what command embedded does with execbus, to be compared with it.
//
//	go run ./tests/cost/plain
package main

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/execbus/execbus/tests/cost/rest"
)

func main() {
	do := hello
	if len(os.Args) > 1 {
		do = func() error { return rest.After(os.Args[1], func() error { return exec.Command("/bin/true").Run() }) }
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func hello() error {
	out, err := exec.Command("echo", "hello").CombinedOutput()
	fmt.Printf("%s", out)
	return err
}
