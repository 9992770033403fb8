package actors

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// shellArgv is the command line that runs a script. It looks at the file system.
func shellArgv(ctx context.Context, script, shell string, login bool) ([]string, error) {
	path, err := findShell(ctx, shell)
	if err != nil {
		return nil, err
	}
	flag := "-c"
	if login {
		flag = "-lc"
	}
	return []string{path, flag, script}, nil
}

// shellKinds are the shells whose command line is known, with where they are looked for last.
var shellKinds = map[string][]string{
	"bash": {"/bin/bash", "/usr/bin/bash"},
	"zsh":  {"/bin/zsh", "/usr/bin/zsh"},
	"sh":   {"/bin/sh"},
}

// shellKind is the name of a shell's file without its extension.
func shellKind(path string) string {
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// findShell finds the program for a shell that was asked for by path or name; an empty one is the user's own. In this
// order: the path itself, the user's own shell if it is of that kind, PATH, the usual places, and at last /bin/sh.
func findShell(ctx context.Context, asked string) (string, error) {
	own := loginShell(ctx)
	if asked == "" {
		asked = own
		if _, known := shellKinds[shellKind(own)]; !known {
			asked = "sh"
		}
	}
	kind := shellKind(asked)
	places, known := shellKinds[kind]
	if !known {
		return "", &messages.Error{Code: messages.CodeInvalidRequest, Op: "exec", Subject: "shell",
			Detail: fmt.Sprintf("%q is none of the shells that scripts can be run with", asked), Hint: "use bash, zsh or sh, or pass an argv"}
	}
	if strings.Contains(asked, "/") && isFile(asked) {
		return asked, nil
	}
	if shellKind(own) == kind && isFile(own) {
		return own, nil
	}
	if found, err := exec.LookPath(kind); err == nil {
		return found, nil
	}
	for _, place := range places {
		if isFile(place) {
			return place, nil
		}
	}
	return "/bin/sh", nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// trustedShells are the shells, besides the system's own, that are believed to be what their names say.
func trustedShells(ctx context.Context) []string {
	if shell, err := ptyio.Local().UserShell(ctx); err == nil && shell != "" {
		return []string{shell}
	}
	return nil
}

// loginShell is the shell that the user database names for us, or else SHELL.
func loginShell(ctx context.Context) string {
	shell, _ := ptyio.Local().UserShell(ctx)
	return cmp.Or(shell, os.Getenv("SHELL"))
}
