package tools_test

import (
	"encoding/json"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/tests/expect"
	"github.com/execbus/execbus/tools"
)

func TestMain(m *testing.M) {
	os.Setenv("HOME", "/proc/does/not/exist") // the user's start files for login shells can be slow, say something, and get in one another's way
	goleak.VerifyTestMain(m)
}

// open opens a session for one test; with options, if there are any.
func open(t *testing.T, options ...tools.Options) (*tools.Set, *execbus.Session) {
	t.Helper()
	o := tools.Options{Session: execbus.SessionOptions{NoLoginShell: true}} // the start files of the system can be slow
	if len(options) > 0 {
		o = options[0]
	}
	if o.Session.Dir == "" {
		o.Session.Dir = t.TempDir()
	}
	runtime := expect.Runtime(t)
	session, err := runtime.OpenSession(o.Session)
	if err != nil {
		t.Fatal(err)
	}
	return tools.New(session, o), session
}

// call makes a call and waits for its answer.
func call(t *testing.T, set *tools.Set, name, arguments string) tools.Answer {
	t.Helper()
	return set.Begin(t.Context(), tools.Request{Name: name, Arguments: json.RawMessage(arguments)}).Answer()
}

// structured is the structured answer as a program reads it.
func structured[T any](t *testing.T, answer tools.Answer) T {
	t.Helper()
	if answer.Err != nil {
		t.Fatal(answer.Text)
	}
	value, ok := answer.Structured.(T)
	if !ok {
		t.Fatalf("the answer is a %T", answer.Structured)
	}
	return value
}
