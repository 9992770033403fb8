package patch_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/patch"
	"github.com/execbus/execbus/tests/patchcases"
)

// FuzzPlan: nothing panics; what comes out is right for some reason or refused with one.
func FuzzPlan(f *testing.F) {
	for _, c := range patchcases.All(f) {
		if len(c.Patch) < 10_000 {
			f.Add(string(c.Patch), c.Before["x"].Text, c.Before["y"].Text)
		}
	}
	f.Fuzz(func(t *testing.T, text, x, y string) {
		p, err := patch.Parse(text)
		if err != nil {
			explained(t, err)
			return
		}
		before := map[string]string{"/w/x": x, "/w/y": y}
		files := inMemory(p, before)
		plan, err := p.Plan("/w", files)
		if err != nil {
			explained(t, err)
			return
		}
		seen := map[string]bool{}
		for _, change := range plan.Changes {
			if seen[change.Path] {
				t.Errorf("%q is changed twice", change.Path)
			}
			seen[change.Path] = true
			if old, was := before[change.Path]; was != (change.Old != nil) || was && string(change.Old.Data) != old {
				t.Errorf("%q was something else", change.Path)
			}
			if change.New == nil && change.Old == nil {
				t.Errorf("nothing becomes of %q", change.Path)
			}
			if change.New == nil {
				continue
			}
			if data := string(change.New.Data); !utf8.ValidString(data) || data != "" && !strings.HasSuffix(data, "\n") && !strings.HasSuffix(data, "\r") {
				t.Errorf("%q becomes %q", change.Path, data)
			}
		}
		if lines := strings.Count(plan.Summary(), "\n"); lines < 1+len(p.Operations) {
			t.Errorf("the summary has %d lines for %d operations", lines, len(p.Operations))
		}
		if diff := plan.Diff(1000); len(diff) > 1000 || !utf8.ValidString(diff) {
			t.Errorf("the diff is %q", diff)
		}
	})
}

func explained(t *testing.T, err error) {
	t.Helper()
	var e *messages.Error
	if !errors.As(err, &e) || e.Code != messages.ErrInvalidRequest || e.Detail == "" || !utf8.ValidString(err.Error()) {
		t.Errorf("the error is %#v", err)
	}
}

// FuzzIntercept: nothing panics, and what is found is a part of the script, but for tabs.
func FuzzIntercept(f *testing.F) {
	for form := range calls {
		f.Add(strings.ReplaceAll(form, "¶", onePatch))
	}
	for _, form := range noCalls {
		f.Add(strings.ReplaceAll(form, "¶", onePatch))
	}
	f.Fuzz(func(t *testing.T, script string) {
		got, found, err := patch.Intercept(&messages.ExecCommand{Script: script})
		if err != nil {
			explained(t, err)
		}
		if plain := strings.ReplaceAll(script, "\t", ""); found && (!strings.Contains(plain, strings.ReplaceAll(got.Text, "\t", "")) || !strings.Contains(plain, strings.ReplaceAll(got.Dir, "\t", ""))) {
			t.Errorf("%q: %+v", script, got)
		}
		if name := strings.Contains(script, "apply_patch") || strings.Contains(script, "applypatch"); found && !name {
			t.Errorf("%q calls nothing", script)
		}
	})
}
