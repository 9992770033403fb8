package main

import (
	"slices"
	"testing"

	"github.com/execbus/execbus/messages"
)

func TestRanges(t *testing.T) {
	t.Parallel()
	at := func(offset int64, most int) messages.ReadOutput {
		return messages.ReadOutput{Offset: &offset, Max: most}
	}
	for text, want := range map[string]messages.ReadOutput{
		"":          {Tail: defaultTail},
		"100":       {Tail: 100},
		"0-":        at(0, 0),
		"5-7":       at(5, 2),
		"0-9999999": at(0, messages.MaxRead),
	} {
		got, err := parseRange(text)
		if err != nil || got.Tail != want.Tail || got.Max != want.Max || (got.Offset == nil) != (want.Offset == nil) ||
			got.Offset != nil && *got.Offset != *want.Offset {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"x", "-", "-5", "0", "7-5", "5-5", "5-x", "1-2-3", "99999999"} {
		if got, err := parseRange(text); err == nil {
			t.Errorf("%q is understood as %+v", text, got)
		}
	}
}

func TestHistoryRemembersNoRepetitions(t *testing.T) {
	t.Parallel()
	h := &history{}
	for _, entry := range []string{"a", "", "a", "b", "a"} {
		h.Add(entry)
	}
	if want := []string{"a", "b", "a"}; !slices.Equal(h.entries, want) {
		t.Errorf("%q", h.entries)
	}
	for range historyLength {
		h.Add("x")
		h.Add("y")
	}
	if h.Len() != historyLength || h.At(0) != "y" || h.At(1) != "x" {
		t.Errorf("%d entries, then %q", h.Len(), h.At(0))
	}
}
