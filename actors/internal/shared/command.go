package shared

import (
	"fmt"

	"github.com/execbus/execbus/internal/label"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/ptyio"
)

// Command is a command as an actor keeps it.
type Command struct {
	messages.ExecCommand
	StartOnly bool                 // the call waits for the program's start only
	Run       *messages.RunCommand // set for a run to the end
}

func CommandOf(m *messages.RunCommand) Command {
	return Command{Run: m, ExecCommand: messages.ExecCommand{Call: m.Call, Owner: m.Owner, Argv: m.Argv, Script: m.Script, Shell: m.Shell,
		Login: m.Login, Dir: m.Dir, Environment: m.Environment, TTY: m.TTY, Size: m.Size, Attended: m.Attended, OpenStdin: m.OpenStdin, Merged: m.Merged,
		Grace: m.Grace, Limits: m.Limits,
		CommandPolicy: m.CommandPolicy}}
}

// Label is the command in a listing: its beginning, if it is long.
func (o *Command) Label() string { return label.Of(o.Script, o.Argv) }

// Check finds errors in a command without looking at the file system.
func (s *Settings) Check(o *Command) error {
	switch {
	case len(o.Argv) == 0 && o.Script == "":
		return BadField("argv", "there is no command; name a program, or a script for a shell", "set Argv or Script")
	case len(o.Argv) > 0 && o.Script != "":
		return BadField("script", "there is a script and a program with arguments; choose one of them", "set Argv or Script")
	case len(o.Argv) > 0 && (o.Shell != "" || o.Login != nil):
		return BadField("shell", "a shell is only used for a script; pass a script, or leave the shell out", "set Script instead of Argv")
	case o.Login != nil && *o.Login && s.noLogin:
		return BadField("login", "login shell is disabled by config; leave login out or set it to false", "open the session without NoLoginShell")
	case len(o.Script) > messages.MaxScript:
		return BadField("script", fmt.Sprintf("it has %d bytes, and the kernel takes at most %d; write it to a file, or to the input of a shell",
			len(o.Script), messages.MaxScript), "")
	case o.arguments() > ptyio.MaxArguments:
		return BadField("argv", fmt.Sprintf("it has more than %d bytes; pass large data by file or input", ptyio.MaxArguments), "")
	default:
		return policy.CheckCommand(o.CommandPolicy, s.Approval)
	}
}

// arguments is how many bytes the arguments have.
func (o *Command) arguments() (total int) {
	for _, word := range o.Argv {
		total += len(word) + 1
	}
	return total
}
