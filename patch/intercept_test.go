package patch_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/patch"
)

const onePatch = "*** Begin Patch\n*** Add File: x\n+1\n*** End Patch"

// The forms, where ¶ stands for a patch. Each was tried.
var (
	calls = map[string]string{ // and the directory that they have
		"apply_patch <<'EOF'\n¶\nEOF":                       "",
		"apply_patch <<EOF\n¶\nEOF":                         "",
		"apply_patch <<\"EOF\"\n¶\nEOF":                     "",
		"apply_patch <<\\EOF\n¶\nEOF":                       "",
		"apply_patch <<'A B'\n¶\nA B":                       "",
		"apply_patch <<E-O.F\n¶\nE-O.F":                     "",
		"apply_patch<<'EOF'\n¶\nEOF":                        "",
		"apply_patch  <<  'EOF' \n¶\nEOF":                   "",
		"\n\n  apply_patch <<'EOF'\n¶\nEOF\n\n":             "",
		"apply_patch <<'EOF'\r\n¶\r\nEOF\r\n":               "",
		"apply_patch <<'EOF'\n¶\n":                          "",
		"apply_patch <<'EOF'\n¶\n  EOF \n":                  "",
		"apply_patch <<'EOF'\n\n¶\n\n\nEOF":                 "",
		"apply_patch <<-'EOF'\n\t¶\n\tEOF":                  "",
		"apply_patch \\\n<<'EOF'\n¶\nEOF":                   "",
		"applypatch <<'EOF'\n¶\nEOF":                        "",
		"FOO=1 apply_patch <<'EOF'\n¶\nEOF":                 "",
		"FOO='a b' BAR= apply_patch <<'EOF'\n¶\nEOF":        "",
		"cd sub && apply_patch <<'EOF'\n¶\nEOF":             "sub",
		"cd sub&&apply_patch<<'EOF'\n¶\nEOF":                "sub",
		"cd 'su b' && apply_patch <<'EOF'\n¶\nEOF":          "su b",
		"cd \"su b\" && apply_patch <<\"EOF\"\n¶\nEOF":      "su b",
		"cd '$X' && apply_patch <<'EOF'\n¶\nEOF":            "$X",
		"cd '~' && apply_patch <<'EOF'\n¶\nEOF":             "~",
		"cd 'a<<b' && apply_patch <<'EOF'\n¶\nEOF":          "a<<b",
		"cd '' && apply_patch <<'EOF'\n¶\nEOF":              "",
		"cd \"\" && apply_patch <<'EOF'\n¶\nEOF":            "",
		"cd /a/./b/../c && applypatch <<'EOF'\n¶\nEOF":      "/a/./b/../c",
		"cd sub &&\napply_patch <<'EOF'\n¶\nEOF":            "sub",
		"cd sub \\\n&& apply_patch <<'EOF'\n¶\nEOF":         "sub",
		"FOO=1 cd sub && BAR=2 apply_patch <<'EOF'\n¶\nEOF": "sub",
	}
	noCalls = []string{
		"cd \"$PWD/sub\" && apply_patch <<'EOF'\n¶\nEOF", // upstream takes it, and writes to /sub
		"cd $X && apply_patch <<'EOF'\n¶\nEOF",
		"cd $(pwd) && apply_patch <<'EOF'\n¶\nEOF",
		"cd `pwd` && apply_patch <<'EOF'\n¶\nEOF",
		"cd ~ && apply_patch <<'EOF'\n¶\nEOF",
		"cd ~/x && apply_patch <<'EOF'\n¶\nEOF",
		"cd s* && apply_patch <<'EOF'\n¶\nEOF",
		"cd s?b && apply_patch <<'EOF'\n¶\nEOF",
		"cd [s]ub && apply_patch <<'EOF'\n¶\nEOF",
		"cd {sub,x} && apply_patch <<'EOF'\n¶\nEOF",
		"cd s\\ub && apply_patch <<'EOF'\n¶\nEOF",
		"cd \"s\\\"ub\" && apply_patch <<'EOF'\n¶\nEOF",
		"cd s'u'b && apply_patch <<'EOF'\n¶\nEOF",
		"cd $'sub' && apply_patch <<'EOF'\n¶\nEOF",
		"cd $\"sub\" && apply_patch <<'EOF'\n¶\nEOF",
		"cd s\x00ub && apply_patch <<'EOF'\n¶\nEOF",
		"cd s\rub && apply_patch <<'EOF'\n¶\nEOF",
		"cd sub && apply_patch \r<<'EOF'\n¶\nEOF",
		"cd =ls && apply_patch <<'EOF'\n¶\nEOF",
		"cd - && apply_patch <<'EOF'\n¶\nEOF",
		"cd -P sub && apply_patch <<'EOF'\n¶\nEOF",
		"cd -- sub && apply_patch <<'EOF'\n¶\nEOF",
		"cd sub x && apply_patch <<'EOF'\n¶\nEOF",
		"cd && apply_patch <<'EOF'\n¶\nEOF",
		"'cd' sub && apply_patch <<'EOF'\n¶\nEOF",
		"pushd sub && apply_patch <<'EOF'\n¶\nEOF",
		"cd sub && cd x && apply_patch <<'EOF'\n¶\nEOF",
		"cd sub; apply_patch <<'EOF'\n¶\nEOF",
		"cd sub\napply_patch <<'EOF'\n¶\nEOF",
		"cd sub || apply_patch <<'EOF'\n¶\nEOF",
		"cd sub | apply_patch <<'EOF'\n¶\nEOF",
		"cd sub >x && apply_patch <<'EOF'\n¶\nEOF",
		"! cd sub && apply_patch <<'EOF'\n¶\nEOF",
		"(cd sub) && apply_patch <<'EOF'\n¶\nEOF",
		"FOO=$(id) apply_patch <<'EOF'\n¶\nEOF",
		"FOO=$X cd sub && apply_patch <<'EOF'\n¶\nEOF",
		"FOO+=1 apply_patch <<'EOF'\n¶\nEOF",
		"FOO[1]=1 apply_patch <<'EOF'\n¶\nEOF",
		"FOO=(1) apply_patch <<'EOF'\n¶\nEOF",
		"! apply_patch <<'EOF'\n¶\nEOF",
		"time apply_patch <<'EOF'\n¶\nEOF",
		"coproc apply_patch <<'EOF'\n¶\nEOF",
		"command apply_patch <<'EOF'\n¶\nEOF",
		"apply_patch <<'EOF' && echo\n¶\nEOF",
		"apply_patch <<'EOF' || true\n¶\nEOF",
		"apply_patch <<'EOF' | cat\n¶\nEOF",
		"apply_patch <<'EOF' &\n¶\nEOF",
		"apply_patch & <<'EOF'\n¶\nEOF",
		"apply_patch <<'EOF'; \n¶\nEOF",
		"apply_patch; <<'EOF'\n¶\nEOF",
		"apply_patch <<'EOF' 2>&1\n¶\nEOF",
		"apply_patch >x <<'EOF'\n¶\nEOF",
		"apply_patch 0<<'EOF'\n¶\nEOF",
		"apply_patch 3<<'EOF'\n¶\nEOF",
		"apply_patch {x}<<'EOF'\n¶\nEOF",
		"<<'EOF' apply_patch\n¶\nEOF",
		"apply_patch <<'EOF' # c\n¶\nEOF",
		"# c\napply_patch <<'EOF'\n¶\nEOF",
		"apply_patch <<'EOF'\n¶\nEOF\necho x",
		"apply_patch <<'EOF'\n¶\nEOF\n# c",
		"apply_patch <<'EOF' <<'E2'\nx\nEOF\n¶\nE2",
		"apply_patch <<< '¶'",
		"apply_patch <<''\n¶\n\n",
		"apply_patch <<E'O'F\n¶\nEOF",
		"apply_patch <<$X\n¶\n$X",
		"apply_patch <<\"$X\"\n¶\n$X",
		"apply_patch '¶'",
		"apply_patch foo <<'EOF'\n¶\nEOF",
		"apply_patch - <<'EOF'\n¶\nEOF", // upstream takes it
		"./apply_patch <<'EOF'\n¶\nEOF",
		"/bin/apply_patch <<'EOF'\n¶\nEOF",
		"'apply_patch' <<'EOF'\n¶\nEOF",
		"apply\\_patch <<'EOF'\n¶\nEOF",
		"$X <<'EOF'\n¶\nEOF",
		"(apply_patch <<'EOF'\n¶\nEOF\n)",
		"{ apply_patch <<'EOF'\n¶\nEOF\n}",
		"if apply_patch <<'EOF'\n¶\nEOF\nthen :; fi",
		"apply_patch() { :; } <<'EOF'\n¶\nEOF",
		"cat <<'EOF' | apply_patch\n¶\nEOF",
		"bash -lc \"apply_patch <<'EOF'\n¶\nEOF\"",
		"cat <<'EOF'\n¶\nEOF",
		"apply_patch",
		"apply_patch <<",
		"echo apply_patch",
		"",
	}
)

func TestCallsOfApplyPatchAreFound(t *testing.T) {
	for form, dir := range calls {
		script := strings.ReplaceAll(form, "¶", onePatch)
		got, found, err := patch.Intercept(&messages.ExecCommand{Script: script})
		if !found || err != nil || got.Dir != dir {
			t.Errorf("%q: %+v, %v, %v", form, got, found, err)
			continue
		}
		p, err := patch.Parse(got.Text)
		if err != nil || len(p.Operations) != 1 || p.Operations[0].Path != "x" {
			t.Errorf("%q: the patch is %q: %v", form, got.Text, err)
		}
	}
}

func TestOtherScriptsAreRun(t *testing.T) {
	for _, form := range noCalls {
		script := strings.ReplaceAll(form, "¶", onePatch)
		if got, found, err := patch.Intercept(&messages.ExecCommand{Script: script}); found || err != nil {
			t.Errorf("%q: %+v, %v, %v", form, got, found, err)
		}
	}
}

func TestOnlyShellsAreAsked(t *testing.T) {
	script := "apply_patch <<'EOF'\n" + onePatch + "\nEOF"
	for shell, want := range map[string]bool{"": true, "bash": true, "/bin/sh": true, "zsh": true, "python3": false, "fish": false, "/usr/bin/pwsh": false} {
		if _, found, err := patch.Intercept(&messages.ExecCommand{Script: script, Shell: shell}); found != want || err != nil {
			t.Errorf("shell %q: %v, %v", shell, found, err)
		}
	}
}

func TestAProgramOfThatNameTakesOnePatch(t *testing.T) {
	for want, argvs := range map[bool][][]string{
		true:  {{"apply_patch", onePatch}, {"applypatch", onePatch}, {"apply_patch", "no patch"}, {"apply_patch", ""}},
		false: {{"apply_patch"}, {"apply_patch", onePatch, "x"}, {"/bin/apply_patch", onePatch}, {"patch", onePatch}, {"bash", "-c", "apply_patch <<E\n" + onePatch + "\nE"}, nil},
	} {
		for _, argv := range argvs {
			got, found, err := patch.Intercept(&messages.ExecCommand{Argv: argv})
			if found != want || err != nil || found && got.Text != argv[1] {
				t.Errorf("%q: %+v, %v, %v", argv, got, found, err)
			}
		}
	}
}

// What a shell would expand in a here-document stays as it is, and nothing of it runs.
func TestNothingIsExpandedInAHereDocument(t *testing.T) {
	text := "*** Begin Patch\n*** Add File: x\n+cost $HOME `id` $(touch y) \\$z \\\\ ${q}\n*** End Patch"
	for _, mark := range []string{"EOF", "'EOF'", `"EOF"`} {
		if got, found, err := patch.Intercept(&messages.ExecCommand{Script: "apply_patch <<" + mark + "\n" + text + "\nEOF"}); !found || err != nil || got.Text != text {
			t.Errorf("%s: %+v, %v, %v", mark, got, found, err)
		}
	}
	tabs := "apply_patch <<-EOF\n\t*** Begin Patch\n\t\t*** Add File: x\n\t+\t1\n\t*** End Patch\n\tEOF" // a shell takes tabs away after <<-
	if got, found, _ := patch.Intercept(&messages.ExecCommand{Script: tabs}); !found || got.Text != "*** Begin Patch\n*** Add File: x\n+\t1\n*** End Patch" {
		t.Errorf("<<-: %+v, %v", got, found)
	}
}

func TestAScriptThatIsAPatchIsRefused(t *testing.T) {
	for _, script := range []string{onePatch, "\n\n" + onePatch + "\n", "<<'EOF'\n" + onePatch + "\nEOF", "*** Begin Patch\n*** End Patch"} {
		_, found, err := patch.Intercept(&messages.ExecCommand{Script: script})
		if found || !errors.Is(err, messages.ErrInvalidRequest) || !strings.Contains(err.Error(), `["apply_patch", "<patch>"]`) {
			t.Errorf("%q: %v, %v", script, found, err)
		}
	}
	for _, script := range []string{"*** Begin Patch\nnonsense\n*** End Patch", "*** Begin Patch", "<<'EOF' cat\n" + onePatch + "\nEOF"} {
		if _, found, err := patch.Intercept(&messages.ExecCommand{Script: script}); found || err != nil {
			t.Errorf("%q: %v, %v", script, found, err)
		}
	}
}
