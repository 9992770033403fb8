package actors

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/execbus/execbus/messages"
)

// shellArgv is the command line that runs a script. It looks at the file system.
func shellArgv(script, shell string, login bool) ([]string, error) {
	path, err := findShell(shell)
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
func findShell(asked string) (string, error) {
	own := loginShell()
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
func trustedShells() []string {
	if shell := userShell(); shell != "" {
		return []string{shell}
	}
	return nil
}

// loginShell is the shell that the user database names for us, or else SHELL.
func loginShell() string { return cmp.Or(userShell(), os.Getenv("SHELL")) }

// userShell is the shell that the user database names for us, if it does. The standard library does not tell it. It is
// looked up once: many commands that start at once would each take a thread to read the file.
var userShell = sync.OnceValue(func() string {
	file, err := os.Open("/etc/passwd")
	if err != nil {
		return ""
	}
	defer file.Close()
	uid := strconv.Itoa(os.Getuid())
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Split(lines.Text(), ":"); len(fields) == 7 && fields[2] == uid {
			return fields[6]
		}
	}
	return ""
})
