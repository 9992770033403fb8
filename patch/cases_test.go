package patch_test

import (
	"os"
	"strings"
	"testing"

	"github.com/execbus/execbus/tests/patchcases"
)

func TestObservedCases(t *testing.T) {
	patchcases.Try(t, func(_ *testing.T, dir, text string) (exit int, stdout, stderr string) { return applied(dir, text) })
}

// applied is what a program does that applies one patch.
func applied(dir, text string) (exit int, stdout, stderr string) {
	plan, err := planned(dir, text)
	if err == nil {
		err = apply(plan)
	}
	if err != nil {
		return 1, "", err.Error()
	}
	return 0, plan.Summary(), ""
}

func TestTheDocHasARowForEachDifference(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(patchcases.Table(t))
	for _, row := range patchcases.Deliberate {
		if !strings.Contains(string(doc), "//   - "+row.Row+".\n") {
			t.Errorf("the package doc does not say: %s", row.Row)
		}
	}
}
