package process

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/command"
	"github.com/execbus/execbus/ptyio"
)

// shellArgv is the command line that runs a script. It looks at the machine.
func shellArgv(ctx context.Context, machine ptyio.Resolver, env []string, script, shell string, login bool) ([]string, error) {
	path, err := findShell(ctx, machine, env, shell)
	if err != nil {
		return nil, err
	}
	argv := []string{path}
	if command.ShellName(path) == command.MultiShell {
		argv = append(argv, "sh")
	}
	flag := "-c"
	if login {
		flag = "-lc"
	}
	return append(argv, flag, script), nil
}

// isShell reports whether a name or path is that of a shell whose scripts are understood.
func isShell(path string) bool {
	name := command.ShellName(path)
	return slices.Contains(command.Shells(), name) || name == command.MultiShell
}

// findShell finds the program for a shell that was asked for by path or name. If none was asked for, it is the user's
// own shell, or sh if that one takes no scripts. A shell that was asked for is never replaced by a different one. It is the one of the
// user database or lies where only the machine's administrator puts programs: any other file could be a shell under a name that no
// rule knows, or no shell at all.
func findShell(ctx context.Context, machine ptyio.Resolver, env []string, asked string) (string, error) {
	own, err := machine.UserShell(ctx)
	if err != nil {
		return "", err
	}
	dirs, err := machine.TrustedDirs(ctx)
	if err != nil {
		return "", err
	}
	trusted := func(path string) bool {
		return path == own || filepath.Clean(path) == path && slices.Contains(dirs, filepath.Dir(path))
	}
	if asked == "" {
		if asked = cmp.Or(own, shared.Variable(env, "SHELL")); !isShell(asked) || !trusted(asked) {
			asked = "sh"
		}
	}
	named := !strings.Contains(asked, "/")
	if !isShell(asked) || !named && !trusted(asked) {
		return "", shared.BadField("shell", fmt.Sprintf("%q is none of the shells that run scripts; use %s or %s, by name or in %s, or name a program", asked,
			strings.Join(command.Shells(), ", "), command.MultiShell, strings.Join(dirs, ", ")), "set Argv instead of Script")
	}
	candidates := []string{asked}
	if named {
		candidates = nil
		if command.ShellName(own) == asked {
			candidates = append(candidates, own)
		}
		if found, err := machine.Program(ctx, asked, "/", ptyio.SearchPath(env)); err == nil && trusted(found) {
			candidates = append(candidates, found)
		}
		for _, dir := range dirs {
			candidates = append(candidates, filepath.Join(dir, asked))
		}
	}
	for _, path := range candidates {
		if is, err := machine.IsFile(ctx, path); err != nil {
			return "", err
		} else if is {
			return path, nil
		}
	}
	return "", &messages.Error{Code: messages.ErrNoSuchProgram, Op: "exec", Subject: "shell",
		Detail: fmt.Sprintf("there is no shell %q; install it, or name another", asked)}
}
