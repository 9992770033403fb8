package policy

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
)

// victims are commands that were approved for the session, and that allow rules let run without a sandbox.
var victims = []string{"git status", "npm test", "make build"}

// attackScripts are scripts that contain a victim, or look like one, and run something else besides or instead. @ is the
// victim, @1 its program and @2 its argument.
var attackScripts = map[string][]string{
	"tails": {
		"@; evil", "@;evil", "@ ;evil;", "@\nevil", "@\n\nevil", "@\r\nevil", "@\revil", "@ && evil", "@&&evil", "@ || evil",
		"@||evil", "@ | evil",
		"@|evil", "@ |& evil", "@ & evil", "@&evil", "@ &", "evil; @", "evil && @", "evil | @", "evil\n@", "@ && @ && evil",
		"@; @; evil",
		"@ # x\nevil", "@;\\\nevil", "! @ || evil", "@ &>/dev/null; evil", "@; ./evil", "@; cd /tmp; evil", "true; @; evil",
		"@\x00evil", "@ \x0bevil; evil", "@;;evil", "@\u2028evil; evil", "@\u0085evil && evil",
	},
	"substitution": {
		"@ $(evil)", "@ `evil`", "@ \"$(evil)\"", "@ \"`evil`\"", "@ ${x:-$(evil)}", "@ $((a[$(evil)]))", "@ $[a[$(evil)]]",
		"$(evil) @", "@$(evil)",
		"@1 $(echo @2; evil)", "$(echo @1) @2", "`echo @1` @2", "@ \"${x@P}\"", "@ ${!x}", "@ $'$(evil)' $(evil)", "@ <<<$(evil)",
		"@ \"a\"$(evil)\"b\"",
		"@ ${x/$(evil)/}", "@ $\"$(evil)\"", "@ $(evil", "@ `evil", "@ \"$(evil\"",
	},
	"process substitution and redirection": {
		"@ <(evil)", "@ >(evil)", "@ < <(evil)", "@ > >(evil)", "@ > /etc/passwd", "@ >> ~/.bashrc", "@ >| x", "@ <> x", "@ 2> x",
		"@ &> x", "@ >& x",
		"> x @", "@ 3> x", "@ {fd}> x", "@ < /dev/tcp/1.2.3.4/80", "exec 3<>/dev/tcp/1.2.3.4/80; @", "@ >&x",
	},
	"environment prefixes": {
		"LD_PRELOAD=./x.so @", "BASH_ENV=./x @", "PATH=.:$PATH @", "PATH=. @", "GIT_SSH_COMMAND=evil @",
		"GIT_EXTERNAL_DIFF=evil @", "A=b @",
		"IFS=x @", "export PATH=.; @", "PATH=.; @", "PATH+=:. ; @", "declare -x PATH=.; @", "typeset -x PATH=.; @",
		"readonly PATH=.; @",
		"LD_PRELOAD= @", "ENV=x @", "PS4='$(evil)' @", "set -a; PATH=. ; @", "read PATH <<<.; @", "printf -v PATH .; @",
		"hash -p ./evil @1; @",
		"unset PATH; @", "local PATH=.; @", "x[$(evil)]=1 @", "A=$(evil) @",
	},
	"wrappers": {
		"env @ ; evil", "env A=b @", "env -i @", "env -S '@'", "env PATH=. @", "sudo @", "sudo -u root @", "doas @", "nice @",
		"nice -n 5 @",
		"nohup @", "timeout 5 @", "time @", "stdbuf -o0 @", "setsid @", "ionice @", "xargs @", "xargs -I{} @", "xargs sh -c '@'",
		"find . -exec @ ;",
		"find . -exec evil {} +", "find . -name x -execdir @ ';'", "command @", "builtin @", "exec @", "eval '@'", "eval @",
		"coproc @", "watch @",
		"script -c '@'", "su -c '@'", "ssh host @", "docker run x @", "chroot . @", "strace @", "parallel @", "nsenter @",
		"unshare @", "flock x @",
		"busybox sh -c '@'", "busybox @", "toybox @", "/lib64/ld-linux-x86-64.so.2 /usr/bin/@", "bash -c '@; evil'",
		"bash -c '@'", "sh -c '@' evil",
		"bash evil.sh @", "source @", ". @", "trap '@' EXIT", "trap evil EXIT; @", "trap evil DEBUG; @", "enable -f ./x.so @1; @",
		"alias @1=evil; @",
		"shopt -s expand_aliases; alias @1=evil\n@", "complete -C evil @1; @", "PROMPT_COMMAND=evil @", "bind -x '\"x\":evil'; @",
		"set -x; @",
		"pushd /tmp; @; evil", "cd /tmp && ./@", "cd $(evil) && @",
	},
	"options of the programs": {
		"git -c core.fsmonitor=evil status", "git -ccore.fsmonitor=evil status", "git --config-env=core.fsmonitor=X status",
		"git -C /tmp status",
		"git --git-dir=/tmp/x status", "git --exec-path=. status", "git --work-tree=. status", "git -p status",
		"git --paginate status",
		"git --no-pager -c alias.x=!evil x", "git diff --ext-diff", "git log --output=x", "git diff --textconv", "git log --outp=x",
		"git branch -D main", "git branch evil", "git --namespace=x status", "git grep -Oevil x", "git difftool -x evil",
		"git submodule foreach evil",
		"npm --prefix /tmp test", "npm --script-shell=./evil test", "npm run evil", "npm exec evil", "make -C /tmp build",
		"make -f evil build",
		"make --eval='$(shell evil)' build", "make SHELL=./evil build", "make evil", "make", "git", "npm",
	},
	"functions, loops and groups": {
		"@1() { evil; }; @", "function @1 { evil; }; @", "@1 () (evil); @", "{ @; evil; }", "(@; evil)", "( @ )", "{ @; }",
		"if @; then evil; fi",
		"while @; do evil; done", "until @; do evil; done", "for x in @; do evil; done", "case x in x) @;; esac", "[[ x ]] && @",
		"((x)) || @", "! @",
		"select x in a; do @; done", "time @", "for ((;;)); do @; done", "until evil; do @; done",
	},
	"here-documents": {
		"@ <<E\n$(evil)\nE", "@ <<E\nx\nE\nevil", "cat <<E | sh\n@\nE", "sh <<E\n@\nE", "bash <<'E'\nevil\nE",
		"@ <<E; evil\nx\nE", "@ <<E > x\nx\nE",
		"A=b @ <<E\nx\nE", "cat <<< @ | sh", "@ <<E && evil\nx\nE", "@ <<E\n`evil`\nE", "@ <<-E\n\t$(evil)\n\tE",
		"python3 <<E\nevil\nE",
		"@ <<E\\\nF\nx\nEF\nevil\nE",
	},
	"interpreters": {
		"python3 -c 'import os; os.system(\"@\")'", "python -c x", "perl -e 'system(\"@\")'", "ruby -e '`@`'", "node -e x",
		"php -r x", "lua -e x",
		"awk 'BEGIN{system(\"@\")}'", "sed '1e @' x", "sed -n '1p;w x' y", "sed -n 1e", "vim -c '!@'", "tclsh x",
		"osascript -e x", "deno eval x",
		"bun -e x", "perl -x", "ed x", "dd if=x of=y", "tee x", "tar cf x --checkpoint-action=exec=@ y", "rg --pre evil x",
		"rg --pre=evil x", "rg -z x",
		"rg --hostname-bin evil x", "find . -delete", "find . -fprintf x y", "base64 -o x y", "base64 --output=x y", "uniq x y",
	},
	"names": {
		"'@'", "\"@\"", "'@1' @2", "\"@1\" @2", "\\@", "@1\\ @2", "./@", "../@", "/tmp/@", "/work/bin/@", "/usr/bin/../../tmp/@",
		"/usr/bin//../../work/@",
		"~/@", "bin/@", "//usr/bin/../../work/@", "/proc/self/cwd/@", "/usr/bin/./../../work/@", "$HOME/@", "$x @", "${x}@",
		"@1${IFS}@2", "@1$IFS@2",
		"$'\\x67it' @2", "@1{,} @2", "{@1,@2}", "@1? @2", "@1* @2", "[@1]* @2", "~+/@", "=@", "@1\u00a0@2", "@1\u3000@2",
		"\u200b@", "@\u200b", "@1 \u2060@2",
		"\ufeff@", "\u202e@", "@\u0301", "\uff47it status", "g\u0456t status", "n\u0440m test", "m\u0430ke build",
		"@1 \u0455tatus", "GIT status",
		"@\U000e0001", "gіt ѕtatuѕ", "@1\t\x7f@2", "@1 -- $x", "@1 $@", "@1 \"$@\"", "@1 $*", "@1 @2\\",
		"@1 @2 \\$(evil) $(evil)", "@1 @2 'a'$(evil)",
	},
}

// attackRequests change a request to run a victim in other ways than by its text.
var attackRequests = map[string]func(*Request){
	"LD_PRELOAD":        setting("LD_PRELOAD", "./x.so"),
	"BASH_ENV":          setting("BASH_ENV", "./x"),
	"ENV":               setting("ENV", "./x"),
	"PATH":              setting("PATH", "."),
	"an empty variable": setting("IFS", ""),
	"BASH_FUNC":         setting("BASH_FUNC_git%%", "() { evil; }"),
	"exact":             func(r *Request) { r.Environment = &messages.EnvironmentPolicy{Exact: true} },
	"no environment":    func(r *Request) { r.Environment = &messages.EnvironmentPolicy{Inherit: messages.InheritNone} },
	"without PATH":      func(r *Request) { r.Environment = &messages.EnvironmentPolicy{Exclude: []string{"PATH"}} },
	"argv[0]":           func(r *Request) { r.Argv0 = "sh" },
	"in the work":       func(r *Request) { r.Program = "/work/bin/" + program(r) },
	"through a detour":  func(r *Request) { r.Program = "/usr/bin/../../work/" + program(r) },
	"in a temporary":    func(r *Request) { r.Program = "/tmp/" + program(r) },
	"found nowhere":     func(r *Request) { r.Program = NotFound },
	"a relative place":  func(r *Request) { r.Program = "bin/" + program(r) },
	"below the system":  func(r *Request) { r.Program = "/usr/bin/x/" + program(r) },
	"a path as a name": func(r *Request) {
		r.Argv[0] = "/work/bin/" + program(r)
		r.Program = r.Argv[0]
	},
	"a relative name": func(r *Request) {
		r.Argv[0] = "./" + program(r)
		r.Program = "/work/" + program(r)
	},
	"one more word for the shell": func(r *Request) {
		if len(r.Argv) != 3 {
			r.Argv[0] = "bash"
		}
		r.Argv = append(r.Argv, "evil")
	},
	"an option of the shell": func(r *Request) {
		r.Argv = append([]string{"/bin/bash", "--rcfile", "x", "-ic"}, r.Argv[len(r.Argv)-1])
	},
	"an interactive shell": func(r *Request) { r.Argv = []string{"/bin/bash", "-ic", r.Argv[len(r.Argv)-1]} },
}

func program(r *Request) string { return r.Argv[0][strings.LastIndex(r.Argv[0], "/")+1:] }

func setting(name, value string) func(*Request) {
	return func(r *Request) { r.Environment = &messages.EnvironmentPolicy{Set: map[string]string{name: value}} }
}

// variants are all attacks by name, each on all victims.
func variants() map[string]Request {
	all := map[string]Request{}
	for group, scripts := range attackScripts {
		for _, template := range scripts {
			for _, victim := range victims {
				name, argument, _ := strings.Cut(victim, " ")
				text := strings.NewReplacer("@1", name, "@2", argument, "@P", "@P", "@", victim).Replace(template)
				all[group+": script "+text] = shell(text)
				if !strings.ContainsAny(text, "|&;<>()$`\\\"'*?[]#~{}!\n\r\x00") {
					r := Request{Argv: strings.Split(text, " "), Dir: "/work"}
					r.Program = "/usr/bin/" + program(&r)
					if strings.Contains(r.Argv[0], "/") {
						r.Program = r.Argv[0]
					}
					all[group+": words "+text] = r
				}
			}
		}
	}
	for name, change := range attackRequests {
		for _, victim := range victims {
			for kind, request := range map[string]Request{"script": shell(victim), "words": words(strings.Fields(victim)...)} {
				request.Argv = slices.Clone(request.Argv)
				change(&request)
				all["request: "+kind+" "+name+" "+victim] = request
			}
		}
	}
	return all
}

// trusting is a snapshot in which the victims have been approved for the session and allowed by rules.
func trusting(t *testing.T, approval messages.ApprovalPolicy, permissions messages.CommandPolicy, byRule bool) Snapshot {
	t.Helper()
	snapshot := under(approval, workspace, nil)
	granted := map[string]bool{}
	for _, victim := range victims {
		for _, request := range []Request{shell(victim), words(strings.Fields(victim)...)} {
			request.CommandPolicy = permissions
			granted[MakePlan(request, snapshot).CacheKey] = true
		}
	}
	if byRule {
		for _, victim := range victims {
			rules, err := snapshot.Rules.With(strings.Fields(victim))
			if err != nil {
				t.Fatal(err)
			}
			snapshot.Rules = rules
		}
	}
	snapshot.Granted = func(key string) bool { return granted[key] }
	return snapshot
}

func TestAttacks(t *testing.T) {
	all := variants()
	if len(all) < 200 {
		t.Errorf("there are only %d variants", len(all))
	}
	t.Logf("%d variants", len(all))
	for _, c := range []struct {
		name        string
		approval    messages.ApprovalPolicy
		permissions messages.CommandPolicy
		byRule      bool
	}{
		{"approved before", untrusted, messages.CommandPolicy{}, false},
		{"approved before, without a sandbox", onRequest, escalated, false},
		{"allowed by a rule", untrusted, messages.CommandPolicy{}, true},
		{"allowed by a rule, without a sandbox", onRequest, escalated, true},
	} {
		snapshot := trusting(t, c.approval, c.permissions, c.byRule)
		for _, victim := range victims {
			request := shell(victim)
			request.CommandPolicy = c.permissions
			if plan := MakePlan(request, snapshot); plan.Decision != Run {
				t.Fatalf("%s: the victim %q itself: %+v", c.name, victim, plan)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			request := all[name]
			request.CommandPolicy = c.permissions
			if plan := MakePlan(request, snapshot); plan.Decision == Run {
				t.Errorf("%s: %s: %s by %s", c.name, strings.ReplaceAll(name, "\n", "⏎"), outcome(plan, true), plan.Source)
			}
		}
	}
}
