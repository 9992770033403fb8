package tools

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/execbus/execbus/messages"
)

// ApplyPatch is the tool that changes files.
const ApplyPatch = "apply_patch"

// The arguments of apply_patch that no other tool has.
const (
	argInput     = "input"
	argCheckOnly = "check_only"
)

// PatchOutcome is the structured answer of apply_patch.
type PatchOutcome struct {
	// Summary is the answer as a model reads it.
	Summary string        `json:"summary"`
	Files   []PatchedFile `json:"files"`
	Notes   []string      `json:"notes,omitempty"`
}

// PatchedFile is what a patch has done to a file.
type PatchedFile struct {
	Path       string               `json:"path"`
	From       string               `json:"from,omitempty"`
	Kind       messages.ChangeKind  `json:"kind"`
	State      messages.ChangeState `json:"state"`
	Overwrites bool                 `json:"overwrites,omitempty"`
	Added      int                  `json:"added"`
	Removed    int                  `json:"removed"`
	Before     string               `json:"before,omitempty"`
	After      string               `json:"after,omitempty"`
}

func patchOutcome() map[string]any {
	word := func(about string) map[string]any { return map[string]any{"type": "string", "description": about} }
	number := func(about string) map[string]any { return map[string]any{"type": "number", "description": about} }
	file := closed(map[string]any{
		"path": word("Absolute, without symbolic links."), "from": word("Where a moved file was before."),
		"kind": word("add, update, delete or move."), "state": word("planned or changed."),
		"overwrites": map[string]any{"type": "boolean", "description": "Whether another file was in its place."},
		"added":      number("Lines."), "removed": number("Lines."), "before": word("The SHA-256 sum of the old content."), "after": word("That of the new one."),
	}, "path", "kind", "state", "added", "removed")
	return closed(map[string]any{"summary": word("What was done."), "files": map[string]any{"type": "array", "items": file}}, "summary", "files")
}

func applyPatch(options Options) tool {
	return tool{Tool: Tool{Name: ApplyPatch, Title: "Apply a patch", Destructive: true, Description: fmt.Sprintf("Changes files by a patch from \"*** Begin Patch\" to \"*** End Patch\", "+
		"with \"*** Add File: PATH\", \"*** Delete File: PATH\" and \"*** Update File: PATH\". All of it is done, or nothing. %s Files elsewhere are asked about, if anybody can be asked.", confinement(options))},
		parameters: []parameter{
			{name: argInput, kind: text, required: true, about: "The whole patch."},
			{name: argWorkdir, kind: text, about: "The directory of relative paths, relative to the session's, which is the default."},
			{name: argJustification, kind: text, about: "Why it is needed, in one sentence for the person who is asked, if one is."},
			{name: argCheckOnly, kind: flag, about: "Whether to say only whether it would be applied. Default: false."},
		}, output: patchOutcome(), run: runPatch}
}

func runPatch(ctx context.Context, s *Set, call messages.CallID, a arguments) Answer {
	result, err := s.session.ApplyPatch(ctx, messages.ApplyPatch{Call: call, Text: a.text(argInput), Dir: a.text(argWorkdir), Justification: a.text(argJustification),
		CheckOnly: a.flag(argCheckOnly)})
	if err != nil {
		return s.options.patchFailure(err)
	}
	outcome := PatchOutcome{Summary: result.Summary, Files: []PatchedFile{}, Notes: a.notes}
	if a.flag(argCheckOnly) {
		outcome.Summary = "Checked only, nothing was changed. It would answer:\n" + outcome.Summary
	}
	for _, f := range result.Files {
		outcome.Files = append(outcome.Files, PatchedFile{f.Path, f.From, f.Kind, f.State, f.Overwrites, f.Added, f.Removed, f.Before, f.After})
	}
	return Answer{Text: outcome.Summary, Structured: outcome}
}

// patchFailure is the answer for a patch that was not applied.
func (o Options) patchFailure(err error) Answer {
	e := typed(err)
	if e.Code == messages.ErrInvalidRequest {
		return Answer{Text: "apply_patch verification failed: " + sentence(e.Error()) + " Nothing was changed; correct the patch and call again.", Err: e}
	}
	return o.refusal(ApplyPatch, err)
}

// patchText is a patch as a model reads it that was given as a command.
func patchText(r *messages.Result) string {
	return "Wall time: 0.0000 seconds\nOutput:\nExit code: 0\nWall time: " + tenths(r.WallTime) + " seconds\nOutput:\n" + r.Patch.Summary
}

// tenths is a time in seconds with at most one digit behind the point.
func tenths(d time.Duration) string {
	return strconv.FormatFloat(math.Round(d.Seconds()*10)/10, 'f', -1, 64)
}
