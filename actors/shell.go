package actors

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// shellKinds are the shells that take a script after -c, as POSIX says, and a login flag before it.
var shellKinds = []string{"bash", "zsh", "sh", "dash", "ash", "ksh", "ksh93", "mksh", "oksh", "yash"}

// multiShell is a program that contains a shell among other programs.
const multiShell = "busybox"

// usualPlaces are searched for a shell that is not in PATH.
var usualPlaces = []string{"/bin", "/usr/bin", "/usr/local/bin"}

// shellArgv is the command line that runs a script. It looks at the machine.
func shellArgv(ctx context.Context, machine ptyio.Resolver, env []string, script, shell string, login bool) ([]string, error) {
	path, err := findShell(ctx, machine, env, shell)
	if err != nil {
		return nil, err
	}
	argv := []string{path}
	if shellKind(path) == multiShell {
		argv = append(argv, "sh")
	}
	flag := "-c"
	if login {
		flag = "-lc"
	}
	return append(argv, flag, script), nil
}

// shellKind is the name of a shell's file without its extension.
func shellKind(path string) string {
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// isShell reports whether a name or path is that of a shell.
func isShell(path string) bool {
	return slices.Contains(shellKinds, shellKind(path)) || shellKind(path) == multiShell
}

// findShell finds the program for a shell that was asked for by path or name. If none was asked for, it is the user's
// own shell, or sh if that one takes no scripts. A shell that was asked for is never replaced by a different one.
func findShell(ctx context.Context, machine ptyio.Resolver, env []string, asked string) (string, error) {
	own, err := machine.UserShell(ctx)
	if err != nil {
		return "", err
	}
	if own == "" {
		own = variable(env, "SHELL")
	}
	if asked == "" {
		if asked = own; !isShell(own) {
			asked = "sh"
		}
	}
	if !isShell(asked) {
		return "", badField("shell", fmt.Sprintf("%q is none of the shells that run scripts; use bash, zsh, sh, dash, ksh or busybox, or name a program", asked),
			"set Argv instead of Script")
	}
	candidates := []string{asked}
	if !strings.Contains(asked, "/") {
		candidates = nil
		if shellKind(own) == asked {
			candidates = append(candidates, own)
		}
		if found, err := machine.Program(ctx, asked, "/", ptyio.SearchPath(env)); err == nil {
			candidates = append(candidates, found)
		}
		for _, place := range usualPlaces {
			candidates = append(candidates, filepath.Join(place, asked))
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

// variable is the value of an environment variable.
func variable(env []string, name string) string {
	for _, entry := range slices.Backward(env) {
		if value, found := strings.CutPrefix(entry, name+"="); found {
			return value
		}
	}
	return ""
}
