package bounded

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

const (
	MaxSource = 256 << 10 // bytes
	maxSteps  = 500_000   // of the Starlark machine
	maxWork   = 8 << 20   // approximate number of bytes read and made
)

// File is one file while it is evaluated.
type File struct {
	name   string
	left   int // of maxWork
	inside int // how many values the value that is read is inside of
}

func New(name string) *File { return &File{name: name, left: maxWork} }

// Run evaluates the source, which may call the functions. It must be called once. Its errors are of type syntax.Error,
// without a position if they concern the whole file.
func (f *File) Run(source []byte, functions starlark.StringDict) error {
	if len(source) > MaxSource {
		return syntax.Error{Msg: fmt.Sprintf("the file has more than %d bytes; split it", MaxSource)}
	}
	text, formats, err := readText(f.name, source)
	if err != nil {
		return f.placed(err)
	}
	options := &syntax.FileOptions{Set: true, TopLevelControl: true, GlobalReassign: true}
	tree, err := options.Parse(f.name, text, 0)
	if err != nil {
		return f.placed(err)
	}
	w := rewriter{formats: formats}
	w.visit(reflect.ValueOf(&tree.Stmts).Elem(), 0)
	if w.formats != 0 && w.err == nil {
		w.err = errors.New("an f-string cannot be here")
	}
	if w.err != nil {
		return f.placed(w.err)
	}
	known := maps.Clone(functions)
	known["$call"] = starlark.NewBuiltin("$call", f.call)
	known["$operate"] = starlark.NewBuiltin("$operate", f.operate)
	known["$read"] = starlark.NewBuiltin("$read", f.read)
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

// Here is the position in the file of the innermost call in the stack.
func (f *File) Here(stack starlark.CallStack) syntax.Position {
	for i := range stack {
		if at := stack.At(i).Pos; at.Filename() == f.name {
			return at
		}
	}
	return syntax.Position{}
}

// placed finds the position for an error from any part of Starlark. Errors of our functions about their arguments begin
// with "invalid" and get no prefix.
func (f *File) placed(err error) error {
	found := syntax.Error{Msg: err.Error()}
	switch e := err.(type) {
	case syntax.Error:
		found = e
	case resolve.ErrorList:
		found = syntax.Error(e[0])
	case *starlark.EvalError:
		found = syntax.Error{Pos: f.Here(e.CallStack), Msg: e.Msg}
	}
	if !strings.HasPrefix(found.Msg, "invalid ") {
		found.Msg = "starlark error: " + found.Msg
	}
	return found
}
