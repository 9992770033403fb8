package command

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// quotedAgain writes a plain script so that nothing but quotes and joints is left to understand.
func quotedAgain(script plainScript) string {
	var b strings.Builder
	for _, command := range script.commands {
		b.WriteString(command.joint)
		for i, word := range command.words {
			if i > 0 {
				word = " '" + strings.ReplaceAll(word, "'", `'\''`) + "'"
			}
			b.WriteString(word)
		}
		for _, null := range command.nulls {
			b.WriteString(" " + null)
		}
	}
	return b.String()
}

// FuzzUnderstand: nothing panics, everything ends soon, and a script that is understood means the same with quotes
// around every word.
func FuzzUnderstand(f *testing.F) {
	for _, text := range slices.Concat(nasty, notPlain) {
		f.Add(text)
	}
	f.Add("sudo env -S 'rm -rf x'; find . -exec sh -c 'eval rm -f x' \\; | trap 'x' EXIT")
	f.Fuzz(func(t *testing.T, text string) {
		u := Understand(script(text))
		dangerous := Dangerous([]string{"bash", "-lc", text})
		words := strings.Fields(text)
		if Dangerous(words) && Safe(words, confined) {
			t.Errorf("%q is safe and dangerous", words)
		}
		Understand(Line{Argv: words})
		if u.Plain && u.Complex || len(u.Commands) == 0 || len(u.Commands) > maxCommands || len(u.Canonical) == 0 {
			t.Errorf("%+v", u)
		}
		if allSafe(u) && dangerous {
			t.Error("it is safe and dangerous")
		}
		if !u.Plain && !u.Complex {
			return
		}
		if !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\r\x1b\x7f") {
			t.Error("a text that shells read differently is understood")
		}
		for _, command := range u.Commands {
			if len(command) == 0 || !plainProgram(command[0]) && !Idle(command) {
				t.Errorf("%q is no command", command)
			}
			if Dangerous(command) && !dangerous {
				t.Errorf("%q is dangerous, but not the script", command)
			}
		}
		known, _ := readScript(text)
		if known.heredoc || slices.ContainsFunc(known.commands, func(c plainCommand) bool { return c.pattern }) {
			return
		}
		again := Understand(script(quotedAgain(known)))
		if !again.Plain || !slices.Equal(again.Canonical, u.Canonical) {
			t.Errorf("%q, written again as %q, is %q and not %q", text, quotedAgain(known), again.Canonical, u.Canonical)
		}
	})
}

// TestNothingIsExecuted: there are programs of all names to be found, in PATH and in the working directory, and none of
// them runs.
func TestNothingIsExecuted(t *testing.T) {
	s := newStage(t)
	log := filepath.Join(s.root, "log")
	t.Chdir(s.work)
	t.Setenv("PATH", s.bin)
	t.Setenv("STUB_LOG", log)
	before := names(t, s.work)
	for _, text := range slices.Concat(nasty, notPlain) {
		for _, shell := range []string{"bash", "./x", "sh"} {
			u := Understand(Line{Argv: []string{shell, "-c", text}, TrustedShells: []string{"x"}})
			for _, command := range u.Commands {
				Safe(command, confined)
				Dangerous(command)
			}
		}
	}
	if _, err := os.Stat(log); !errors.Is(err, fs.ErrNotExist) || !slices.Equal(before, names(t, s.work)) {
		t.Error("something ran:", err)
	}
	if err := exec.CommandContext(context.Background(), "ls").Run(); err != nil {
		t.Fatal("a stub does not run:", err)
	}
	if _, err := os.Stat(log); err != nil {
		t.Error("a stub that runs is not noticed:", err)
	}
}

// TestAllBuiltinsAreKnown: every builtin command and reserved word of the bash here is either inert or makes a script not
// plain.
func TestAllBuiltinsAreKnown(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash to ask:", err)
	}
	output, err := exec.Command(bash, "--noprofile", "--norc", "-c", "compgen -b -k").Output()
	if err != nil || len(output) < 100 {
		t.Fatalf("%v: %q", err, output)
	}
	for _, name := range strings.Fields(string(output)) {
		if name == "]]" || name == "in" || inert[name] || shellWords[name] {
			continue
		}
		t.Errorf("bash has %q, and nothing is known about it", name)
	}
	for name := range inert {
		if shellWords[name] {
			t.Errorf("%q is inert and is not", name)
		}
	}
}
