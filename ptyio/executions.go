package ptyio

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/execbus/execbus/messages"
)

// Execution is one execve or execveat of a process of a command's tree, seen before the kernel executes the program. What it says was
// read from the caller's memory; other threads of the caller can change that memory before the kernel reads it again.
type Execution struct {
	// PID is the caller, and Parent its parent, as the host sees them. A program that is executed keeps the PID.
	PID, Parent int
	// Program is the path as the caller wrote it; empty for the file of a descriptor (fexecve).
	Program string
	// Resolved is where that leads: an absolute path without symbolic links, as the caller sees it; empty if it could not be looked up.
	Resolved string
	// Argv are the arguments, the first of which is any name that the caller has chosen. Cut says that the last ones were left out,
	// which happens only in reports, beyond MaxReportedBytes.
	Argv []string
	Cut  bool
	// Dir is the caller's directory; empty if it could not be looked up.
	Dir string
	// Unread says why program or arguments could not be read; empty if they were. What was read before is there.
	Unread string
}

// Executions says which executions of a command's tree are seen. The start of the launch's own program is not among them, and neither is
// an execution of a file that does not exist, or to which no directory may be searched, which fails anyway.
type Executions struct {
	// Names are names of programs, without directories: at most MaxExecutionNames. An execution is judged if its program has one of them:
	// as the caller wrote it, as it resolves, or as the first argument. With All every one is judged. One whose program or
	// arguments could not be read is judged, too.
	Names []string
	All   bool
	// Judge says whether an execution may happen; one that may not fails with EACCES in the caller, which waits meanwhile. Each call has
	// a goroutine of its own, and may come before Spawn has returned. At most MaxJudged executions of a tree, and MaxJudgedBytes of arguments,
	// are judged at once; more wait.
	// ctx ends when the caller is gone or the tree ends (ErrCallerGone), and after JudgeWait (ErrJudgedLate) unless hold was called before:
	// that is for a question to a person. What Judge returns after that means nothing.
	// An answer that allows can be on its way when that happens. So settled, which may be nil, is then called once with what became of
	// the execution: nil if it went on, and otherwise ErrJudgedLate or ErrCallerGone. It must neither block nor call the spawner. The
	// event that the tree has ended comes after all that, unless Judge takes more than two seconds to return when ctx has ended.
	Judge func(ctx context.Context, e Execution, hold func()) (v Verdict, settled func(error))
	// Seen, if not nil, gets the executions that Judge does not get, a moment later: at most MaxReported at once, with the number of
	// those that came too fast to be kept. It is never called twice at once, and must not block. Executions do not wait for it.
	Seen func(batch []Execution, dropped int)
	// Unconfined says that executions are seen even if nothing confines the launch. Its programs then cannot gain rights
	// (no_new_privs): sudo and other set-uid programs do not work.
	Unconfined bool
}

// Verdict is what Executions.Judge says.
type Verdict int

// The verdicts.
const (
	Refused Verdict = iota
	Allowed
	// AllowedAlike is Allowed, and lets later executions of the tree pass that are the same: Program, Resolved and Argv. They go to Seen instead
	// of Judge, if the spawner has kept the answer; it keeps some, of short executions, and none about one that is Unread.
	AllowedAlike
)

// Unjudged is the cause of the end of a context of Executions.Judge.
type Unjudged string

// The causes.
const (
	ErrCallerGone Unjudged = "the process that was to execute it is gone"
	ErrJudgedLate Unjudged = "the execution was refused, because nobody judged it in time"
)

// Error implements error.
func (u Unjudged) Error() string { return string(u) }

// Bounds of executions.
const (
	MaxExecutionNames = 1024
	// MaxExecutionArguments and MaxExecutionBytes bound the arguments of a judged execution, with a byte behind each. One with
	// more could not be read.
	MaxExecutionArguments = 32 << 10
	MaxExecutionBytes     = 256 << 10
	// MaxReported and MaxReportedBytes bound a batch of Executions.Seen, and the arguments of one execution in it.
	MaxReported      = 256
	MaxReportedBytes = 2 << 10
	// MaxJudged and MaxJudgedBytes bound what is judged at once for one tree. An argument has 16 bytes besides its own.
	MaxJudged      = 128
	MaxJudgedBytes = 1 << 20
	// JudgeWait is how long an execution waits for its judge unless a person is asked.
	JudgeWait = 5 * time.Second
)

// Check returns an error for names that no program can have, and for too many of them.
func (e *Executions) Check() error {
	if e == nil {
		return nil
	}
	if e.Judge == nil && (e.All || len(e.Names) > 0) {
		return invalid("executions", "nobody judges them; name who does", "set Executions.Judge")
	}
	for _, name := range e.Names {
		if name == "" || len(name) > 255 || strings.ContainsAny(name, "/\x00") {
			return invalid("executions", fmt.Sprintf("%.40q is not the name of a program; leave directories out", name), "")
		}
	}
	if len(e.Names) > MaxExecutionNames {
		return invalid("executions", fmt.Sprintf("there are %d names; pass at most %d, or judge every execution", len(e.Names), MaxExecutionNames),
			"set Executions.All")
	}
	return nil
}

// Unseen adds to an enforcement that the executions of a launch, which asked for it, are not seen. A spawner's Can uses it.
func Unseen(e messages.Enforcement, why string) messages.Enforcement {
	e.Missing = append(slices.Clip(e.Missing), messages.Missing{What: messages.MissingExecutions, Why: why})
	return e
}
