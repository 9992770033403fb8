// Command plain does with package os/exec what command embedded does with execbus, to be compared with it.
//
//	go run ./tests/cost/plain
package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
)

func main() {
	if len(os.Args) > 1 {
		if err := rest(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	out, err := exec.Command("echo", "hello").CombinedOutput()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%s", out)
}

func rest() error {
	count, err := strconv.Atoi(os.Args[1])
	if err != nil {
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
