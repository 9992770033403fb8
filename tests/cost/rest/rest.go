// Package rest is what the programs of package cost have in common: they do something as often as they are told, and then
// rest, so that their memory can be measured. It must import next to nothing, because their size is measured, too.
package rest

import (
	"fmt"
	"io"
	"os"
	"strconv"
)

// After calls run as often as count says, says that the program rests, and returns when its standard input ends.
func After(count string, run func() error) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	for range n {
		if err := run(); err != nil {
			return err
		}
	}
	fmt.Println("resting")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
