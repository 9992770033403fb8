// Package expect has what the tests of several packages want: a runtime that ends with the test, a wait for what happens at some
// time, and a look at a text.
package expect

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus"
)

// patience bounds each wait.
const patience = time.Minute

// Runtime starts a runtime that ends with the test, and keeps nothing in the home of its user.
func Runtime(t testing.TB) *execbus.Runtime {
	t.Helper()
	runtime, err := execbus.Start(execbus.Options{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := runtime.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return runtime
}

// Contains checks that a text contains all parts.
func Contains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not contain %q", text, part)
		}
	}
}

// Eventually waits until a condition holds. It ends the test if that takes longer than 20 s.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen: " + what)
		}
	}
}
