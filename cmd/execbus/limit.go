package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/execbus/execbus/messages"
)

// setLimits sets the limits of commands, each NAME=VALUE.
func setLimits(c *config, values []string) error {
	c.limits = messages.Limits{}
	for _, value := range values {
		if err := setLimit(&c.limits, value); err != nil {
			return err
		}
	}
	return nil
}

// setLimit sets one of the limits: NAME=VALUE.
func setLimit(l *messages.Limits, text string) error {
	name, value, _ := strings.Cut(text, "=")
	var err error
	switch name {
	case "output":
		l.OutputBytes, err = size(value)
	case "memory":
		l.MemoryBytes, err = size(value)
	case "cpu":
		l.CPUTime, err = time.ParseDuration(value)
	case "wall":
		l.WallTime, err = time.ParseDuration(value)
	case "processes":
		l.Processes, err = strconv.Atoi(value)
	case "files":
		l.OpenFiles, err = strconv.Atoi(value)
	default:
		return fmt.Errorf("there is no limit %q; use output, cpu, wall, memory, processes or files", name)
	}
	if err != nil {
		return fmt.Errorf("%q is not a value for the limit %s", value, name)
	}
	return l.Check()
}

// size reads a number of bytes.
func size(text string) (int64, error) {
	factor := int64(1)
	for i, unit := range []string{"K", "M", "G"} {
		if number, found := strings.CutSuffix(text, unit); found {
			text, factor = number, 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if n > 1<<62/factor {
		return 0, errors.New("too large")
	}
	return n * factor, err
}
