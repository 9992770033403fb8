package messages_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
)

func TestReadsThatCannotBeAreRefused(t *testing.T) {
	zero, one := int64(0), int64(1)
	for says, m := range map[string]messages.ReadOutput{
		"more than once":          {Offset: &one, Tail: 1},
		"one of Offset":           {Offset: &one, Line: &one},
		"no line 0":               {Line: &zero},
		"behind a chunk":          {AfterSeq: new(uint64), Grep: &messages.Grep{Pattern: "x"}},
		"does not wait":           {Grep: &messages.Grep{Pattern: "x"}, Wait: 1},
		"it is empty":             {Grep: &messages.Grep{}},
		"use at most":             {Grep: &messages.Grep{Pattern: strings.Repeat("x", messages.MaxPattern+1)}},
		"missing closing":         {Grep: &messages.Grep{Pattern: "(x"}},
		"too large":               {Grep: &messages.Grep{Pattern: "x{999}y{999}"}},
		"before: the number":      {Grep: &messages.Grep{Pattern: "x", Before: -1}},
		"after: the number":       {Grep: &messages.Grep{Pattern: "x", After: -1}},
		"matches: the number":     {Grep: &messages.Grep{Pattern: "x", Matches: -1}},
		"bytes: the number":       {Grep: &messages.Grep{Pattern: "x", Bytes: -1}},
		"expression as RE2 reads": {Grep: &messages.Grep{Pattern: "(?<=x)"}},
	} {
		err := m.Check()
		typed, is := errors.AsType[*messages.Error](err)
		if !is || typed.Code != messages.ErrInvalidRequest || !strings.Contains(err.Error()+typed.Hint, says) {
			t.Errorf("%q: %v", says, err)
		}
	}
	for _, m := range []messages.ReadOutput{{Line: &one}, {Line: new(int64(-5)), Grep: &messages.Grep{Pattern: ".*"}}, {Grep: &messages.Grep{Pattern: "a|b", Before: 1 << 40}}, {Tail: 5, Grep: &messages.Grep{Pattern: "x"}}} {
		if err := m.Check(); err != nil {
			t.Errorf("%+v: %v", m, err)
		}
	}
}

func TestAnOmissionSaysWhereItCanBeRead(t *testing.T) {
	r := messages.Result{Output: []byte("headtail"), Head: 4, Omitted: 30, OmittedAt: 104, OmittedKept: true, MaxOutputTokens: 1000}
	if got, want := r.OutputText(), "head\n... 30 bytes omitted ...\n... they can be read, from offset 104 to 134 ...\ntail"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	r.OmittedKept = false
	if got, want := r.OutputText(), "head\n... 30 bytes omitted ...\ntail"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
