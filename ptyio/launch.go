package ptyio

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/execbus/execbus/messages"
)

// MaxArguments bounds the bytes of Argv and Env together. Linux itself takes 2 MiB by default and never more than 6.
const MaxArguments = 6 << 20

// Launch is the concrete way to start a child. Spawn does not change it.
type Launch struct {
	// Argv is the program with its arguments. A program without a slash is looked up in the PATH of Env; one with a
	// slash is relative to Dir.
	Argv []string
	// Argv0, if not empty, is the name that the program gets as its own, instead of Argv[0].
	Argv0 string
	// Env is the child's exact environment.
	Env []string
	// Dir is the working directory; it must be absolute.
	Dir string
	// TTY runs the child on a pseudo-terminal of this Size; otherwise on pipes.
	TTY  bool
	Size messages.Size
	// Unattended says that no person's terminal shows the output and answers what programs ask a terminal. So the spawner does: see
	// "Answers" in the package documentation.
	Unattended bool
	// OpenStdin gives a child on pipes a pipe for its input. Without it the input is the null device.
	OpenStdin bool
	// Merged gives a child on pipes one pipe for stdout and stderr, so that its output comes in the order in which it was
	// written, all as stdout. A terminal has one stream anyway.
	Merged bool
	// Inherit lists the descriptors that the child gets besides 0 to 2. The caller still owns the files. They are put into
	// blocking mode, as programs expect. Both sides share the mode, so a waiting read of the caller then occupies a thread.
	Inherit []Inherited
	// OnLeaderExit and Grace say what happens to background children. Empty means LeaderExitEndsTree, and nil means
	// DefaultGrace.
	OnLeaderExit messages.OnLeaderExit
	Grace        *time.Duration
	// Sandbox confines the child; nil means no confinement. It must come from the same spawner. A spawner that cannot enforce
	// as much as it demands refuses the launch with messages.ErrUnsupported.
	Sandbox Enclosure
	// Limits bound what the child may use. A spawner that cannot enforce one of them refuses the launch, with
	// messages.ErrUnsupported.
	Limits messages.Limits
	// Executions says which executions of the tree are seen; nil means none. A spawner that cannot show them starts the launch without,
	// and says so: see messages.Enforcement.Executions and Spawner.Can.
	Executions *Executions
	// Events receives every event of the child, from Spawned on. It is called from several goroutines, but never for two events
	// of one stream at once. It must not block. It may be called before Spawn returns.
	Events func(Event)
}

// Inherited is a descriptor that the child gets under the number FD (3 to MaxInheritedFD).
type Inherited struct {
	FD   int
	File *os.File
}

func invalid(field, detail, hint string) error {
	return &messages.Error{Code: messages.ErrInvalidRequest, Op: "spawn", Subject: field, Detail: detail, Hint: hint}
}

// Check returns an error for a launch that no spawner can start. A spawner of the host's own calls it first.
func (launch Launch) Check() error {
	if len(launch.Argv) == 0 || launch.Argv[0] == "" {
		return invalid("argv", "the command line is empty; name a program", "")
	}
	if launch.Events == nil {
		return invalid("events", "the launch has no receiver of events; name one", "set Launch.Events")
	}
	total := 0
	for _, list := range []struct {
		field string
		words []string
	}{{"argv", launch.Argv}, {"environment", launch.Env}, {"argv0", []string{launch.Argv0}}, {"dir", []string{launch.Dir}}} {
		for _, s := range list.words {
			if strings.IndexByte(s, 0) >= 0 {
				return invalid(list.field, fmt.Sprintf("%.40q contains a NUL byte, where the kernel ends it; remove it", s), "")
			}
			total += len(s) + 1
		}
	}
	if total > MaxArguments {
		return invalid("argv", fmt.Sprintf("arguments and environment have %d bytes; pass at most %d, and large data by file or input",
			total, MaxArguments), "")
	}
	if launch.OnLeaderExit != "" && launch.OnLeaderExit != messages.LeaderExitEndsTree && launch.OnLeaderExit != messages.LeaderExitKeepsTree {
		return invalid("onLeaderExit", fmt.Sprintf("%q is unknown; use %q or %q", launch.OnLeaderExit, messages.LeaderExitEndsTree, messages.LeaderExitKeepsTree), "")
	}
	if err := launch.Limits.Check(); err != nil {
		return err
	}
	if err := launch.Executions.Check(); err != nil {
		return err
	}
	return validateInherited(launch.Inherit)
}

func validateInherited(inherit []Inherited) error {
	if len(inherit) > MaxInherited {
		return invalid("inherit", fmt.Sprintf("there are %d descriptors; pass at most %d", len(inherit), MaxInherited), "")
	}
	used := map[int]bool{}
	for _, in := range inherit {
		if in.FD < 3 || in.FD > MaxInheritedFD || in.File == nil || used[in.FD] {
			return invalid("inherit", fmt.Sprintf("descriptor %d cannot be passed; give each file a number of its own between 3 and %d",
				in.FD, MaxInheritedFD), "")
		}
		used[in.FD] = true
	}
	return nil
}

// StepError is an errno of Starter.Start, with the step of the start that failed.
type StepError struct {
	Step  string // such as "chdir" or "execve"
	Errno syscall.Errno
}

func (e *StepError) Error() string { return e.Step + ": " + e.Errno.Error() }

// Unwrap returns the errno.
func (e *StepError) Unwrap() error { return e.Errno }

// aboutProgram reports whether the errno may concern the program: the step is the execution, or is not known.
func (e *StepError) aboutProgram() bool { return e == nil || e.Step == "execve" }

// aboutDir reports whether the errno concerns the directory.
func (e *StepError) aboutDir() bool { return e != nil && e.Step == "chdir" }
