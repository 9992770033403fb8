// Command plain runs a command with package os/exec. The test of package cost compares programs that embed execbus with it.
//
//	go run ./tests/cost/plain
package main

import (
	"fmt"
	"os"
	"os/exec"
)

func main() {
	out, err := exec.Command("echo", "hello").CombinedOutput()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%s", out)
}
