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

const (
	MaxSource = 256 << 10 // bytes
	maxSteps  = 500_000   // of the Starlark machine
)

// File is one file while it is evaluated.
type File struct {
	name string
	work *work
}

func New(name string) *File { return &File{name: name, work: &work{left: maxWork}} }

// Place is a position in the file. Both numbers count from 1; columns count characters.
type Place struct{ Line, Column int32 }

// Error is what is wrong with a file.
type Error struct {
	At   Place // zero if it concerns the whole file
	Text string
}

func (e *Error) Error() string { return e.Text }

// Run evaluates the source, which may call the functions. It must be called once. Its errors are of type *Error.
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
	f.work.functions, err = rewrite(tree, formats)
	if err != nil {
		return f.placed(err)
	}
	known := maps.Clone(functions)
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

// Charge counts work that a function does, in bytes that it reads or keeps. The function should return the error.
func (f *File) Charge(cost int) error { return f.work.charge(cost) }

// Here is the place in the file whose call the thread is in.
func (f *File) Here(thread *starlark.Thread) Place { return f.first(thread.CallStack()) }

// first is the innermost place of the stack that lies in the file.
func (f *File) first(stack starlark.CallStack) Place {
	for i := range stack {
		if at := stack.At(i).Pos; at.Filename() == f.name {
			return Place{at.Line, at.Col}
		}
	}
	return Place{}
}

// placed finds the place in the file, for an error from any part of Starlark. Errors of our functions about their
// arguments begin with "invalid" and get no prefix.
func (f *File) placed(err error) *Error {
	found := &Error{Text: err.Error()}
	if e, ok := errors.AsType[syntax.Error](err); ok {
		found = &Error{Place{e.Pos.Line, e.Pos.Col}, e.Msg}
	} else if list, ok := errors.AsType[resolve.ErrorList](err); ok && len(list) > 0 {
		found = &Error{Place{list[0].Pos.Line, list[0].Pos.Col}, list[0].Msg}
	} else if e, ok := errors.AsType[*starlark.EvalError](err); ok {
		found = &Error{f.first(e.CallStack), e.Msg}
	}
	if !strings.HasPrefix(found.Text, "invalid ") {
		found.Text = "starlark error: " + found.Text
	}
	return found
}
