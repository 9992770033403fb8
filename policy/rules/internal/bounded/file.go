package bounded

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Bounds of one file. A file that needs more is an error.
const (
	MaxSource = 256 << 10 // bytes
	maxSteps  = 500_000   // of the Starlark machine
)

// File is one file while it is evaluated.
type File struct {
	name string
	work *work
}

// New makes a file that is not evaluated yet. The name is the one that its places and stacks show.
func New(name string) *File {
	return &File{name: name, work: &work{left: maxWork, own: map[string]bool{}}}
}

// Place is a line and column of a file, from 1; the zero value is none.
type Place struct{ Line, Column int32 }

// Error describes a fault in a file, and its place.
type Error struct {
	At   Place
	Text string
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// Run evaluates the source; functions are those that it may call besides Starlark's own. An error is an *Error.
func (f *File) Run(source []byte, functions starlark.StringDict) error {
	if len(source) > MaxSource {
		return &Error{Text: fmt.Sprintf("the file has more than %d bytes; split it", MaxSource)}
	}
	plain, formats, err := cutFormats(source)
	if err != nil {
		return err
	}
	options := &syntax.FileOptions{Set: true, TopLevelControl: true, GlobalReassign: true}
	tree, err := options.Parse(f.name, plain, 0)
	if err != nil {
		return f.placed(err)
	}
	rewriter := rewriter{formats: formats, functions: map[Place]int{}}
	if err := rewriter.file(tree); err != nil {
		return f.placed(err)
	}
	known := maps.Clone(functions)
	for name := range functions {
		f.work.own[name] = true
	}
	f.work.functions = rewriter.functions
	f.work.addTo(known)
	program, err := starlark.FileProgram(tree, known.Has)
	if err != nil {
		return f.placed(err)
	}
	thread := &starlark.Thread{Name: f.name, Print: func(*starlark.Thread, string) {}}
	thread.SetMaxExecutionSteps(maxSteps)
	if _, err := program.Init(thread, known); err != nil {
		return f.placed(err)
	}
	return nil
}

// Charge counts work that a function does for the file, roughly in bytes; an error ends the evaluation.
func (f *File) Charge(cost int) error { return f.work.charge(cost) }

// Here is the place of the innermost call that the file itself makes.
func (f *File) Here(thread *starlark.Thread) Place {
	for i := range thread.CallStackDepth() {
		if at := thread.CallFrame(i).Pos; at.Filename() == f.name {
			return Place{at.Line, at.Col}
		}
	}
	return Place{}
}

// placed finds the place in the file, for an error from any part of Starlark. Errors of our functions about their
// arguments begin with "invalid" and get no prefix.
func (f *File) placed(err error) *Error {
	if e, ok := errors.AsType[syntax.Error](err); ok {
		return &Error{Place{e.Pos.Line, e.Pos.Col}, "starlark error: " + e.Msg}
	}
	if list, ok := errors.AsType[resolve.ErrorList](err); ok && len(list) > 0 {
		return &Error{Place{list[0].Pos.Line, list[0].Pos.Col}, "starlark error: " + list[0].Msg}
	}
	found := &Error{Text: err.Error()}
	if e, ok := errors.AsType[*starlark.EvalError](err); ok {
		found.Text = e.Msg
		for i := range e.CallStack {
			if pos := e.CallStack.At(i).Pos; pos.Filename() == f.name {
				found.At = Place{pos.Line, pos.Col}
				break
			}
		}
	}
	if !strings.HasPrefix(found.Text, "invalid ") {
		found.Text = "starlark error: " + found.Text
	}
	return found
}
