package patch

import "github.com/execbus/execbus/messages"

// Parse reads a patch. An error says in which line the patch is wrong; the line with "*** Begin Patch" is the first.
func Parse(text string) (*Patch, error) { return nil, unwritten("parse") }

// Plan matches the operations against the files, one after the other, and says what changes. If one operation does not fit, nothing is
// changed at all, and the error says which and why. files has what stands at each of the Paths.
func (p *Patch) Plan(dir string, files map[string]File) (*Plan, error) { return nil, unwritten("plan") }

// Single refuses a patch in which two operations name one path, as an intercepted command may not.
func (p *Patch) Single(dir string) error { return unwritten("check") }

// Summary is what an applied patch answers: "Success. Updated the following files:" and a line for each operation.
func (p *Plan) Summary() string { return "" }

// Diff shows the changes to a person: unified, at most limit bytes with the middle cut, and nothing in it that cannot be seen.
func (p *Plan) Diff(limit int) string { return "" }

// Intercepted is a patch that was given as a command.
type Intercepted struct {
	Text string // the patch
	Dir  string // of "cd DIR && apply_patch": as it is written, so perhaps relative to the command's directory; empty: there is none
}

// Intercept finds the patch in a command that is nothing but a call of apply_patch. Without one, the command is to be run. An error refuses
// a script that is a patch itself.
func Intercept(command *messages.ExecCommand) (Intercepted, bool, error) {
	return Intercepted{}, false, nil
}

func unwritten(op string) error {
	return &messages.Error{Code: messages.ErrUnsupported, Op: op, Subject: "patch"}
}
