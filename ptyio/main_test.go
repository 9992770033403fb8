package ptyio_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// full selects the long form of tests that count successes under load.
var full = flag.Bool("full", false, "repeat what is repeated 500 times")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
