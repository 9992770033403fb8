package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/execbus/execbus/tests/patchcases"
)

// What was seen of the program apply_patch comes out of execbus patch, but for what should not.
func TestPatchDoesWhatWasObserved(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	every := 6 // the tests of package patch run them all by the program that writes; PATCH_CASES=all runs all here, too
	if os.Getenv("PATCH_CASES") == "all" {
		every = 1
	}
	number := 0
	patchcases.Try(t, func(t *testing.T, dir, text string) (exit int, stdout, stderr string) {
		if number++; number%every != 0 {
			t.SkipNow()
		}
		if text == "" {
			text = "\n" // empty input is wrong usage
		}
		var out, err bytes.Buffer
		exit = run([]string{"patch", "--sandbox", "danger-full-access", "--approval", "never", "--dir", dir}, streams{strings.NewReader(text), &out, &err})
		return exit, out.String(), err.String()
	})
}
