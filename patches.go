package execbus

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/execbus/execbus/actors"
	"github.com/execbus/execbus/internal/own"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/patch"
	"github.com/execbus/execbus/patch/writer"
	"github.com/execbus/execbus/ptyio"
)

// ApplyPatch applies a patch, if it may be applied. An error means that nothing was changed, unless it says which files are; a PatchFailed
// event has the state of each. A context that ends cancels a patch that is not being written yet; one that is being written is finished.
// Package patch describes the language, and package patch/writer what holds when files are written.
func (s *Session) ApplyPatch(ctx context.Context, apply messages.ApplyPatch) (*messages.PatchResult, error) {
	return beginNew[*messages.PatchResult](ctx, s, apply)
}

// IsPatch reports whether Exec takes a command for a patch. Of such a command only the text, the directories, the justification, the owner and
// the call count: a patch has no terminal, and its sandbox is the session's, whatever SandboxPermissions ask for.
func IsPatch(command messages.ExecCommand) bool {
	_, is, err := patch.Intercept(&command)
	return is || err != nil
}

// execPatch applies a patch that was given as a command.
func (s *Session) execPatch(ctx context.Context, command messages.ExecCommand, found patch.Intercepted) (*messages.Result, error) {
	dir := found.Dir
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(command.Dir, dir)
	}
	result, err := s.ApplyPatch(ctx, messages.ApplyPatch{Call: command.Call, Owner: command.Owner, Text: found.Text, Dir: dir,
		Justification: command.Justification, EachOnce: true})
	if err != nil {
		return nil, err
	}
	return &messages.Result{Call: command.Call, Status: messages.StatusExited(0), WallTime: result.WallTime, Output: []byte(result.Summary),
		MaxOutputTokens: messages.DefaultOutputTokens, Cause: messages.CauseExited, Patch: result}, nil
}

// RecoverPatches settles what hosts that were killed have left of patches on this machine: all files of a patch are as before it, or as after
// it. It returns a sentence for each such patch; there is none where nothing was left. The error says which patches are not settled, or why
// that is not known. Every patch does this first.
func (r *Runtime) RecoverPatches(ctx context.Context) ([]string, error) {
	return actors.RecoverPatches(ctx, &r.around)
}

// patches is how patches are applied: package patch has the language, and package writer the program and the journal.
type patches struct {
	dir string // of the journals; empty: there is none
}

// journals are below the state directory, or where this user's state is.
func journals(stateDir string) string {
	if stateDir != "" {
		return filepath.Join(stateDir, "patches")
	}
	return own.Patches()
}

// Launch implements actors.Patches.
func (p *patches) Launch(ctx context.Context, machine ptyio.Resolver) (ptyio.Launch, error) {
	if ptyio.IsLocal(machine) {
		return writer.Launch()
	}
	if other, can := machine.(ptyio.Patcher); can {
		return other.PatchProgram(ctx)
	}
	return ptyio.Launch{}, &messages.Error{Code: messages.ErrUnsupported, Op: "apply patch", Subject: "files",
		Detail: "the machine on which commands run has no program of ours that reads and writes them; change the files by commands"}
}

// journal is that of the patches on a machine. Each machine has its own: what one has left, no program on another can settle.
func (p *patches) journal(ctx context.Context, machine ptyio.Resolver) (*writer.Journal, error) {
	dir := p.dir
	if other, is := machine.(ptyio.Patcher); is {
		name, err := other.Machine(ctx)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256([]byte(name))
		dir = filepath.Join(dir, hex.EncodeToString(sum[:8]))
	}
	if p.dir == "" {
		return nil, &messages.Error{Code: messages.ErrUnsupported, Op: "apply patch", Subject: "journal",
			Detail: "there is no directory for it, because this user has no home; name a state directory", Hint: "set Options.StateDir"}
	}
	return writer.OpenJournal(dir)
}

// Parse implements actors.Patches.
func (p *patches) Parse(m messages.ApplyPatch, dir string) (actors.Patch, error) {
	parsed, err := patch.Parse(m.Text)
	if err == nil && m.EachOnce {
		err = parsed.Single(dir)
	}
	if err != nil {
		return nil, err
	}
	return &onePatch{patches: p, Patch: parsed, dir: dir, keep: m.KeepExisting}, nil
}

// Recover implements actors.Patches.
func (p *patches) Recover(ctx context.Context, machine ptyio.Resolver, begin actors.BeginPatchProgram) (texts []string, err error) {
	journal, err := p.journal(ctx, machine)
	if err != nil {
		return nil, err
	}
	recovered, err := journal.Recover(ctx, beginRecorded(begin))
	for _, r := range recovered {
		if r.Err != nil {
			err = errors.Join(err, fmt.Errorf("a patch that was not finished could not be settled: %w", r.Err))
			continue
		}
		texts = append(texts, "a patch that was not finished was settled: "+toldOf(r))
	}
	return texts, err
}

// toldOf says what has become of a patch that was not finished.
func toldOf(r writer.Recovered) string {
	text := "its files are as before it"
	if slices.ContainsFunc(r.Results, func(f writer.Result) bool { return f.State == writer.IsNew }) {
		text = "its files are as after it"
	}
	for _, f := range r.Results {
		if f.State == writer.Left {
			text += fmt.Sprintf("; %s was left as it is: %s", messages.Visible(f.Path), f.Why)
		}
	}
	return text
}

// beginRecorded starts programs under the confinement that a record has.
func beginRecorded(begin actors.BeginPatchProgram) func(context.Context, json.RawMessage) (io.ReadWriteCloser, error) {
	return func(ctx context.Context, policy json.RawMessage) (io.ReadWriteCloser, error) {
		var c ptyio.Confinement
		if err := json.Unmarshal(policy, &c); err != nil {
			return nil, err
		}
		c.Policy.Network = nil // the program talks to nobody
		return begin(ctx, c)
	}
}

// onePatch implements actors.Patch.
type onePatch struct {
	*patches
	*patch.Patch
	dir    string
	keep   bool // files that exist are not overwritten
	looked *writer.Looked
	plan   *patch.Plan
}

// Read implements actors.Patch.
func (p *onePatch) Read(program io.ReadWriter, dirs, unreadable []string) (read actors.PatchPlan, err error) {
	if p.looked, err = writer.New(program).Read(slices.Concat(p.Paths(p.dir), dirs)); err != nil {
		return read, err
	}
	p.hide(unreadable)
	if p.plan, err = p.Plan(p.dir, p.looked.Files); err != nil {
		return read, err
	}
	if over := p.plan.Overwritten(); p.keep && len(over) > 0 {
		return read, &messages.Error{Code: messages.ErrInvalidRequest, Op: "apply patch", Detail: "it must not replace files that exist, but: " + over[0] + "; choose another path"}
	}
	read = actors.PatchPlan{Files: fileChanges(p.plan), Dirs: map[string]string{}, Located: map[string]messages.Location{},
		Diff: p.plan.Diff(messages.MaxQuestionDiff), Summary: p.plan.Summary(), Overwritten: p.plan.Overwritten()}
	for _, file := range read.Files {
		read.Located[file.Path] = p.looked.Location(file.Path)
		if file.From != "" {
			read.Located[file.From] = p.looked.Location(file.From)
		}
	}
	for _, dir := range dirs {
		read.Dirs[dir] = p.looked.Files[dir].Leads
	}
	return read, nil
}

// hide forgets what was read of files that must not be. Where only Landlock confines the program, it can read them.
func (p *onePatch) hide(unreadable []string) {
	below := func(path string) bool {
		return slices.ContainsFunc(unreadable, func(denied string) bool {
			rest, err := filepath.Rel(denied, path)
			return err == nil && filepath.IsLocal(rest)
		})
	}
	for path, file := range p.looked.Files {
		if below(file.Place) || below(file.Leads) {
			file.Data, file.Problem = nil, "it must not be read"
			p.looked.Files[path] = file
		}
	}
}

// fileChanges are the changes of a plan. A move is one of them, and not an addition and a removal.
func fileChanges(plan *patch.Plan) (files []messages.FileChange) {
	old, moved := map[string]*patch.Content{}, map[string]bool{}
	for _, c := range plan.Changes {
		old[c.Path] = c.Old
		moved[c.From] = true
	}
	for _, c := range plan.Changes {
		f := messages.FileChange{Path: c.Path, Kind: messages.ChangeUpdate, Overwrites: c.Overwrites, Added: c.Added, Removed: c.Removed,
			Before: digest(c.Old), After: digest(c.New), State: messages.StatePlanned}
		if c.Named != c.Path {
			f.Named = c.Named
		}
		switch {
		case c.New == nil && moved[c.Path]:
			continue
		case c.New == nil:
			f.Kind = messages.ChangeDelete
		case c.From != "":
			f.Kind, f.From, f.Before = messages.ChangeMove, c.From, digest(cmp.Or(old[c.From], c.Old))
		case c.Old == nil || c.Overwrites:
			f.Kind = messages.ChangeAdd
		}
		files = append(files, f)
	}
	return files
}

// digest is the sum of a file's content; empty if there is no file.
func digest(c *patch.Content) string {
	if c == nil || c.Link != "" {
		return ""
	}
	sum := sha256.Sum256(c.Data)
	return hex.EncodeToString(sum[:])
}

// Write implements actors.Patch.
func (p *onePatch) Write(ctx context.Context, machine ptyio.Resolver, program io.ReadWriter, job actors.PatchJob, begin actors.BeginPatchProgram) ([]messages.FileChange, error) {
	files := fileChanges(p.plan)
	journal, err := p.journal(ctx, machine)
	if err != nil {
		return files, err
	}
	policy, err := json.Marshal(job.Confinement)
	if err != nil {
		return files, err
	}
	if job.Confinement.Policy.Confined() {
		dirs, more := own.Files()
		job.Protected = slices.Concat(job.Protected, dirs, more)
	}
	results, err := writer.New(program).Write(ctx, writer.Job{Plan: p.plan, Looked: p.looked, Journal: journal, Policy: policy, Protected: job.Protected})
	if err == nil {
		mark(files, results)
		return files, nil
	}
	if results == nil { // the program may have failed in the midst of it
		recovered, _ := journal.Recover(ctx, beginRecorded(begin))
		for _, r := range recovered {
			results = append(results, r.Results...)
		}
		results = slices.DeleteFunc(results, func(r writer.Result) bool {
			return !slices.ContainsFunc(p.plan.Changes, func(c patch.Change) bool { return c.Path == r.Path })
		})
		if len(results) == 0 && errors.Is(err, messages.ErrRuntimeFailure) {
			for i := range files {
				files[i].State, files[i].Detail = messages.StateUncertain, "the patch was not finished, and could not be settled yet"
			}
		}
	}
	mark(files, results)
	if len(results) > 0 && !slices.ContainsFunc(files, func(f messages.FileChange) bool { return f.State != messages.StateChanged }) {
		return files, nil
	}
	return files, err
}

// mark says what has become of the files.
func mark(files []messages.FileChange, results []writer.Result) {
	for _, r := range results {
		for i := range files {
			f := &files[i]
			if f.Path != r.Path && f.From != r.Path || f.State == messages.StateUncertain {
				continue
			}
			switch r.State {
			case writer.IsNew:
				f.State = messages.StateChanged
			case writer.IsOld:
				f.State = messages.StateRestored
			default:
				f.State, f.Detail = messages.StateUncertain, r.Why
			}
		}
	}
}
