//go:build linux

package attack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox"
	"github.com/execbus/execbus/tools"
)

// patchAttack is one way out of the sandbox by a patch. Nobody can be asked. In its texts, WORK is the writable root, OUT the directory
// beside it, OWN a writable root with the host's rules and state, HOST the host's process and SECRET a file that must not be read.
type patchAttack struct {
	name    string
	setup   func(*scene)
	prepare string // what a command of the attacker's does before
	during  string // what another does over and over while patches are applied
	dir     string
	patch   string // between its first line and its last
	// works says that the attack works without a sandbox, and that the test shows it.
	works bool
	// fine says that the patch may be applied: it is the effect that must not be.
	fine bool
}

// secret is what nothing that a model or a person sees may have, nor its digest.
const secret = "swordfish"

func add(path string) string { return "*** Add File: " + path + "\n+owned\n" }

func remove(path string) string { return "*** Delete File: " + path + "\n" }

func update(path string) string { return "*** Update File: " + path + "\n@@\n-untouched\n+owned\n" }

func moveTo(path, to string) string {
	return "*** Update File: " + path + "\n*** Move to: " + to + "\n@@\n+owned\n"
}

// patchAttacks are all of them. They are numbered as they stand here.
func patchAttacks() []patchAttack {
	return slices.Concat(patchesOutside(), patchesOfProtected(), patchesThatShow(), patchesThatHang(), patchesThatRace())
}

// patchesOutside lead out of the root.
func patchesOutside() []patchAttack {
	return []patchAttack{
		{name: "up", patch: add("../out/new"), works: true},
		{name: "up from below", patch: add("dir/../../out/new"), works: true},
		{name: "up behind a missing directory", patch: add("none/../../out/new"), works: true},
		{name: "far up", patch: add(strings.Repeat("../", 100) + "OUT/new"), works: true},
		{name: "absolute", patch: add("OUT/new"), works: true},
		{name: "absolute, spelled oddly", patch: add("//OUT/.//dir/../new"), works: true},
		{name: "update", patch: update("OUT/file"), works: true},
		{name: "delete", patch: remove("OUT/file"), works: true},
		{name: "overwrite", patch: add("OUT/file"), works: true},
		{name: "move out", patch: moveTo("file", "OUT/new"), works: true},
		{name: "move over", patch: moveTo("file", "OUT/file"), works: true},
		{name: "move in", patch: moveTo("OUT/file", "stolen"), works: true},
		{name: "the last of three", patch: add("one") + add("two") + add("OUT/new"), works: true},
		{name: "the root becomes a file", patch: remove("file") + add("WORK"), fine: false},
		{name: "new directories", patch: add("OUT/a/b/c/new"), works: true},
		{name: "a link", prepare: "ln -s OUT l", patch: add("l/new"), works: true},
		{name: "a relative link", prepare: "ln -s ../out l", patch: add("l/dir/new"), works: true},
		{name: "a chain of links", prepare: "ln -s OUT a; ln -s a b; ln -s b l", patch: add("l/new"), works: true},
		{name: "a link to a file", prepare: "ln -s OUT/file l", patch: update("l"), works: true},
		{name: "overwrite through a link", prepare: "ln -s OUT/file l", patch: add("l"), works: true},
		{name: "a link to a missing file", prepare: "ln -s OUT/new l", patch: add("l"), works: true},
		{name: "move onto a link", prepare: "ln -s OUT/new l", patch: moveTo("file", "l"), works: true},
		{name: "move a file that is behind a link", prepare: "ln -s OUT l", patch: moveTo("l/file", "stolen"), works: true},
		{name: "dots behind a link", prepare: "ln -s OUT/dir l", dir: "l", patch: update("../file"), fine: true},
		{name: "the directory is a link", prepare: "ln -s OUT l", dir: "l", patch: update("file"), works: true},
		{name: "the directory is outside", dir: "../out", patch: update("file"), works: true},
		{name: "the directory is a link of the kernel's", dir: "/proc/self/root/OUT", patch: update("file"), works: true},
		{name: "the root of a process", patch: add("/proc/self/root/OUT/new"), works: true},
		{name: "the root of the first process", patch: add("/proc/1/root/OUT/new")},
		{name: "the root of the host", patch: add("/proc/HOST/root/OUT/new"), works: true},
		{name: "a link to the root of the host", prepare: "ln -s /proc/HOST/root l", patch: add("l/OUT/new"), works: true},
		{name: "the directory of the writer", patch: add("/proc/self/cwd/new")},
		{name: "a descriptor of the writer's", patch: add("/proc/self/fd/1") + add("/proc/self/fd/4")},
	}
}

// patchesOfProtected are on what lies inside a root and must not change.
func patchesOfProtected() []patchAttack {
	home := func(entries ...string) func(*scene) {
		return func(s *scene) {
			plant(append(entries, "home/")...)(s)
			s.Setenv("HOME", s.Work+"/home")
		}
	}
	const config, journal = "home/.config/execbus/config.toml", "home/.local/state/execbus/patches/"
	return []patchAttack{
		{name: "a hook", patch: add(".git/hooks/pre-commit"), works: true},
		{name: "the settings of the repository", patch: update(".git/config"), works: true},
		{name: "delete the settings of the repository", patch: remove(".git/config"), works: true},
		{name: "move to a hook", patch: moveTo("file", ".git/hooks/pre-commit"), works: true},
		{name: "move the settings of the repository away", patch: moveTo(".git/config", "config"), works: true},
		{name: "a hook, spelled oddly", patch: add("dir/.././.git//hooks/x"), works: true},
		{name: "a hook, behind a link", prepare: "ln -s .git l", patch: add("l/hooks/x"), works: true},
		{name: "a hook, by a link to its name", prepare: "ln -s .git/hooks/x l", patch: add("l"), works: true},
		{name: "a hook, from its directory", dir: ".git/hooks", patch: add("x"), works: true},
		{name: "a hook, from a link to its directory", prepare: "ln -s .git/hooks l", dir: "l", patch: add("x"), works: true},
		{name: "a hook, by way of the host", patch: add("/proc/HOST/root/WORK/.git/hooks/x"), works: true},
		{name: "a nested repository", patch: update("vendor/lib/.git/config"), works: true},
		{name: "a nested repository, behind a link", prepare: "ln -s vendor/lib/.git l", patch: update("l/config"), works: true},
		{name: "a new nested repository", patch: add("new/.git/config"), works: true},
		{name: "a file in place of .agents", patch: add(".agents"), works: true},
		{name: "a file in .agents", patch: add(".agents/x"), works: true},
		{name: "a file in place of .codex", patch: add(".codex"), works: true},
		{name: "a file in .codex", patch: moveTo("file", ".codex/config.toml"), works: true},
		{name: "a name of the host's", setup: plant(".idea/"), patch: add(".idea/x"), works: true},
		{name: "the file that names a repository", setup: pointer, patch: remove(".git"), works: true},
		{name: "the repository that a file names", setup: pointer, patch: add("dir/real/config"), works: true},
		{name: "the settings", setup: home(config + "=untouched"), patch: update(config), works: true},
		{name: "settings that are missing", setup: home(), patch: add(config), works: true},
		{name: "the settings, behind a link", setup: home("more/execbus/config.toml=untouched", "home/.config->../more"), patch: update("more/execbus/config.toml"), works: true},
		{name: "a rule of the user's", setup: home(), patch: add("home/.config/execbus/rules/default.rules"), works: true},
		{name: "the settings that the user has put elsewhere", setup: func(s *scene) {
			plant("settings/own.toml=untouched")(s)
			s.Setenv("EXECBUS_CONFIG", s.Work+"/settings/own.toml")
		}, patch: update("settings/own.toml"), works: true},
		{name: "a record in the journal of patches", setup: home(journal), patch: add(journal + "00.json"), works: true},
		{name: "a journal of patches", setup: home(), patch: add(journal + "00.json"), works: true},
		{name: "a record in the journal of the host", patch: add("OWN/state/patches/00.json")},
		{name: "the lock of the journal of the host", patch: add("OWN/state/patches/lock")},
		{name: "a rule of the host's", patch: add("OWN/rules/evil.rules"), works: true},
		{name: "the file with answers", patch: add("OWN/answers.rules"), works: true},
	}
}

// patchesThatShow are on a file that must not be read.
func patchesThatShow() []patchAttack {
	return []patchAttack{
		{name: "update a secret", patch: update("SECRET")},
		{name: "update a secret with a line that is in it", patch: "*** Update File: SECRET\n@@\n-password\n+owned\n"},
		{name: "delete a secret", patch: remove("SECRET")},
		{name: "overwrite a secret", patch: add("SECRET")},
		{name: "move a secret", patch: moveTo("SECRET", "open")},
		{name: "a secret, behind a link", prepare: "ln -s SECRET l", patch: moveTo("l", "open")},
		{name: "a secret, behind a link to its directory", prepare: "ln -s WORK/denied l", patch: moveTo("l/secret", "open")},
		{name: "a secret, by way of the host", patch: moveTo("/proc/HOST/root/SECRET", "open")},
		{name: "a secret beside another file", patch: add("one") + "*** Update File: SECRET\n@@ password\n+owned\n"},
	}
}

// patchesThatHang are on what is no file, or is too much.
func patchesThatHang() []patchAttack {
	list := []patchAttack{
		{name: "update a FIFO", prepare: "mkfifo p", patch: update("p")},
		{name: "overwrite a FIFO", prepare: "mkfifo p", patch: add("p")},
		{name: "delete a FIFO", prepare: "mkfifo p", patch: remove("p")},
		{name: "move onto a FIFO", prepare: "mkfifo p", patch: moveTo("file", "p")},
		{name: "a FIFO behind a link", prepare: "mkfifo p; ln -s p l", patch: update("l")},
		{name: "a FIFO for a directory", prepare: "mkfifo p", patch: add("p/x")},
		{name: "work in a FIFO", prepare: "mkfifo p", dir: "p", patch: add("x")},
		{name: "a link to itself", prepare: "ln -s l l", patch: update("l")},
		{name: "a ring of links", prepare: "ln -s a b; ln -s b a", patch: add("a/x")},
		{name: "a link that leads deeper and deeper", prepare: "ln -s . l", patch: add(strings.Repeat("l/", 1000) + "x")},
		{name: "work in a ring of links", prepare: "ln -s a b; ln -s b a", dir: "a", patch: add("x")},
		{name: "a directory", patch: remove("dir") + add("one")},
		{name: "a huge file without blocks", prepare: "truncate -s 1T big || truncate -s 1G big", patch: update("big")},
		{name: "move a huge file", prepare: "truncate -s 1G big", patch: moveTo("big", "small")},
		{name: "overwrite a huge file", prepare: "truncate -s 1G big", patch: add("big")},
		{name: "many huge files", prepare: "for i in 0 1 2 3 4 5 6 7 8 9; do truncate -s 1G big$i; done",
			patch: remove("big0") + remove("big1") + remove("big2") + remove("big3") + remove("big4") + remove("big5") + remove("big6") + remove("big7")},
		{name: "a name of 100,000 bytes", patch: add(strings.Repeat("x", 100_000))},
		{name: "a path of 100,000 bytes", patch: add(strings.Repeat("x/", 50_000) + "x"), fine: true},
		{name: "dots of 100,000 bytes", patch: add(strings.Repeat("x/../", 20_000) + "../out/new"), works: true},
		{name: "5,000 operations", patch: many(5000)},
		{name: "1,000 operations and one outside", patch: many(1000) + add("OUT/new"), works: true},
	}
	for _, path := range []string{"/dev/zero", "/dev/full", "/dev/random", "/dev/tty", "/dev/stdin", "/dev/fd/0", "/proc/self/mem", "/proc/sysrq-trigger", "/proc/kcore", "/proc/kmsg",
		"/proc/self/maps", "/proc/sys/kernel/core_pattern", "/sys/kernel/uevent_helper", "/dev/ptmx"} {
		list = append(list, patchAttack{name: path, patch: update(path)}, patchAttack{name: "overwrite " + path, patch: add(path)})
	}
	return list
}

func many(operations int) string {
	var b strings.Builder
	for i := range operations {
		b.WriteString(add("many/" + strconv.Itoa(i)))
	}
	return b.String()
}

// patchesThatRace come with a command of the same session that changes the tree under the writer.
func patchesThatRace() []patchAttack {
	return []patchAttack{
		{name: "a directory is exchanged for a link", prepare: "mkdir d; ln -s OUT l", during: "mv d e; mv l d; mv d l; mv e d", patch: add("d/new") + add("d/file"), fine: true},
		{name: "a parent is exchanged for a link", prepare: "mkdir -p d/dir; ln -s OUT l", during: "mv d e; mv l d; mv d l; mv e d", patch: add("d/dir/new"), fine: true},
		{name: "a file is exchanged for a link", prepare: "echo untouched >f; ln -s OUT/file l", during: "mv f g; mv l f; mv f l; mv g f", patch: add("f"), fine: true},
		{name: "a link leads elsewhere each time", prepare: "mkdir d", during: "ln -sfn d l; ln -sfn OUT l", patch: add("l/new"), fine: true},
		{name: "a new directory becomes a link", during: "ln -s OUT n; rm -r n", patch: add("n/new"), fine: true},
		{name: "a new directory becomes a link to a repository", during: "ln -s .git n; rm -r n", patch: add("n/hooks/x"), fine: true},
		{name: "temporary files become links", prepare: "echo untouched >f", during: "for t in .execbus-patch-*; do ln -sf OUT/file $t; done", patch: add("f") + add("g"), fine: true},
		{name: "temporary files become other files", prepare: "echo untouched >f", during: "for t in .execbus-patch-*; do ln -f file $t; done", patch: add("f") + add("g"), fine: true},
		{name: "temporary files become directories", during: "for t in .execbus-patch-*; do mv $t gone; mkdir $t; done; rmdir .execbus-patch-*", patch: add("f") + add("g"), fine: true},
		{name: "a file is exchanged for a FIFO", prepare: "echo untouched >f; mkfifo p", during: "mv f g; mv p f; mv f p; mv g f", patch: add("f"), fine: true},
		{name: "a file grows", prepare: "echo untouched >f", during: "echo more >>f", patch: add("f"), fine: true},
		{name: "a file gets names", prepare: "echo untouched >f", during: "ln f g; rm g", patch: add("f"), fine: true},
		{name: "the writer is stopped", during: "for p in /proc/[0-9]*; do case $(cat $p/comm 2>&-) in *patch*) kill -STOP ${p#/proc/};; esac; done", patch: add("f"), fine: true},
		{name: "the writer is entered", during: "for p in /proc/[0-9]*; do case $(cat $p/comm 2>&-) in *patch*) echo owned >$p/root/OUT/new; echo owned >$p/cwd/new; " +
			"for f in $p/fd/*; do echo owned >$f/new; echo owned >$f; done;; esac; done", patch: add("f") + add("dir/f"), fine: true},
	}
}

// arena is where patches are tried at one level.
type arena struct {
	rt    *execbus.Runtime
	own   string
	level messages.Assurance // empty: without a sandbox
}

// inArenas runs a test at each level of the machine.
func inArenas(t *testing.T, test func(*testing.T, arena)) {
	level, _, why := best(t, host(t))
	if level == messages.AssuranceNone {
		t.Skipf("skipped: nothing can be confined here: %s", why)
	}
	for _, at := range []messages.Assurance{messages.AssuranceIsolated, messages.AssuranceConfined} {
		t.Run(string(at), func(t *testing.T) {
			if at == messages.AssuranceIsolated && level != at {
				t.Skipf("skipped: this machine allows no namespaces: %s", why)
			}
			test(t, newArena(t, at))
		})
	}
}

func newArena(t *testing.T, level messages.Assurance) arena {
	t.Helper()
	own, err := os.MkdirTemp("", "execbus-attack-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(own)) })
	own, err = filepath.EvalSymlinks(own)
	must(t, err)
	must(t, os.Mkdir(own+"/rules", 0o755))
	state, err := os.MkdirTemp(own, "state-") // the name is short: sockets may lie below it
	must(t, err)
	must(t, os.Rename(state, own+"/state"))
	spawner, err := sandbox.New(sandbox.Options{WithoutNamespaces: level == messages.AssuranceConfined})
	must(t, err)
	t.Cleanup(func() { must(t, spawner.Close()) })
	rt, err := execbus.Start(execbus.Options{Spawner: spawner, StateDir: own + "/state", Rules: []execbus.RuleLayer{{Dir: own + "/rules", Trusted: true}}, AmendmentFile: own + "/answers.rules"})
	must(t, err)
	t.Cleanup(func() { must(t, rt.Shutdown(context.Background())) })
	return arena{rt, own, level}
}

// patching is a scene with the sessions of one attack.
type patching struct {
	*scene
	arena
	words    *strings.Replacer
	attacker func() *execbus.Session // whose commands prepare an attack, or play along
	session  *execbus.Session        // that the patches come to
	told     *bytes.Buffer           // everything that the session has shown, the events among it
}

// set sets an attack up. Options may be changed for the session of the patches.
func (a arena) set(t *testing.T, setup func(*scene), more ...func(*execbus.SessionOptions)) *patching {
	t.Helper()
	t.Setenv("HOME", "/nonexistent")
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_STATE_HOME", "EXECBUS_CONFIG"} {
		t.Setenv(name, "")
	}
	s := stage(t, a.rt, attack{setup: func(s *scene) {
		plant("denied/secret=password\n"+secret+"\n", "file=untouched\n")(s)
		if setup != nil {
			setup(s)
		}
	}})
	s.policy.ProtectedNames = []string{".idea"}
	s.policy.WritableRoots = []string{a.own}
	s.policy.DeniedReads = []string{s.Work + "/denied"}
	p := &patching{scene: s, arena: a, told: &bytes.Buffer{},
		words: strings.NewReplacer("WORK", s.Work, "OUT", s.Out, "OWN", a.own, "HOST", strconv.Itoa(s.Host), "SECRET", s.Work+"/denied/secret")}
	open := func(more ...func(*execbus.SessionOptions)) *execbus.Session {
		session, err := s.open(a.level, s.Work, append([]func(*execbus.SessionOptions){func(o *execbus.SessionOptions) {
			o.Approval = messages.ApprovalPolicy{Mode: messages.ApproveNever}
			if a.level == "" {
				o.Sandbox = &messages.SandboxPolicy{Type: messages.SandboxDangerFullAccess}
			}
		}}, more...)...)
		must(s, err)
		return session
	}
	p.session = open(more...)
	p.attacker = sync.OnceValue(func() *execbus.Session { return open() }) // most attacks need none
	return p
}

// prepare lets a command of the attacker's run.
func (p *patching) prepare(script string) {
	p.Helper()
	if script == "" {
		return
	}
	if said := p.shell(p.attacker(), p.words.Replace(script)); said != "code(0)" {
		p.Fatalf("the attack was not prepared: %s", said)
	}
}

// doors are the ways by which a patch of a model comes.
var doors = []string{"the tool", "a command", "the library"}

// apply applies a patch and returns its answer and its error.
func (p *patching) apply(door, dir, patch string) (string, error) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	text, dir := "*** Begin Patch\n"+p.words.Replace(patch)+"*** End Patch\n", p.words.Replace(dir)
	var said any
	var err error
	switch door {
	case "the tool":
		input, failed := json.Marshal(map[string]string{"input": text, "workdir": dir})
		must(p, failed)
		answer := tools.New(p.session, tools.Options{}).Begin(ctx, tools.Request{Name: tools.ApplyPatch, Arguments: input}).Answer()
		if said = answer; answer.Err != nil {
			err = answer.Err
		}
	case "a command":
		script := "apply_patch <<'EOF'\n" + text + "EOF\n"
		if dir != "" {
			script = "cd " + dir + " && " + script
		}
		var result *messages.Result
		if result, err = p.session.Exec(ctx, messages.ExecCommand{Script: script}); err == nil && result.Patch == nil {
			p.Errorf("a command ran instead of the patch: %s", result.Output)
		}
		said = result
	default:
		said, err = p.session.ApplyPatch(ctx, messages.ApplyPatch{Text: text, Dir: dir})
	}
	if errors.Is(err, context.DeadlineExceeded) {
		p.Errorf("it hangs: %v", err)
	}
	shown, failed := json.Marshal(said)
	must(p, failed)
	fmt.Fprintln(p.told, string(shown), err)
	return string(shown), err
}

// world is everything that must stay as it is: the files by their paths, with mode and content.
func (p *patching) world(all bool) map[string]string {
	p.Helper()
	seen := map[string]string{}
	roots := []string{p.Out, p.own}
	for _, name := range []string{".git", ".agents", ".codex", ".idea", "vendor", "denied", "settings", "more", "dir/real", "home", "new"} {
		roots = append(roots, p.Work+"/"+name)
	}
	if all {
		roots = append(roots, p.Work)
	}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || err == nil && path == p.own+"/state" {
				return fs.SkipDir
			}
			if err != nil {
				return err
			}
			info, err := entry.Info()
			switch {
			case errors.Is(err, fs.ErrNotExist): // a temporary file
			case err != nil:
				return err
			case info.Mode().IsRegular() && info.Size() < 1<<20:
				text, _ := os.ReadFile(path)
				seen[path] = fmt.Sprint(info.Mode(), string(text))
			case entry.IsDir() && strings.HasPrefix(path, p.Out), info.Mode().IsRegular(): // elsewhere, a sandbox may keep places free by directories
				seen[path] = info.Mode().String()
			}
			return nil
		})
		if err != nil {
			p.Fatal(err)
		}
	}
	records, err := filepath.Glob(p.own + "/state/patches/*.json")
	must(p, err)
	seen["records"] = fmt.Sprint(records)
	return seen
}

// same fails if the world is another one.
func (p *patching) same(before map[string]string, all bool, why string) {
	p.Helper()
	if diff := difference(before, p.world(all)); diff != "" {
		p.Errorf("it worked:%s\n%.2000s", diff, why)
	}
}

func difference(before, after map[string]string) (diff string) {
	for path, text := range after {
		if was, known := before[path]; !known || was != text {
			diff += fmt.Sprintf("\n%s: %.100q, was %.100q", path, text, was)
		}
	}
	for path := range before {
		if _, there := after[path]; !there {
			diff += "\n" + path + " is gone"
		}
	}
	return diff
}

// hidden fails if anybody was shown the secret.
func (p *patching) hidden() {
	p.Helper()
	sum := sha256.Sum256([]byte("password\n" + secret + "\n"))
	if told := p.told.String(); strings.Contains(told, secret) || strings.Contains(told, hex.EncodeToString(sum[:])) {
		p.Errorf("the secret was told: %.3000s", told)
	}
}

// listen keeps the events of a session.
func (p *patching) listen() (stop func()) {
	p.Helper()
	events, err := p.session.Events(execbus.Watch{Lossless: true})
	must(p, err)
	done := make(chan struct{})
	var told bytes.Buffer
	go func() {
		defer close(done)
		for event := range events.All(context.Background()) {
			text, _ := json.Marshal(event)
			told.Write(append(text, '\n'))
		}
	}()
	return func() {
		events.Close()
		<-done
		p.told.Write(told.Bytes())
	}
}

// loop starts the command that changes things, and waits until it does.
func (p *patching) loop(script string) {
	p.Helper()
	yield := patience
	result, err := p.attacker().Exec(p.Context(), messages.ExecCommand{Argv: []string{"/bin/sh", "-c",
		"echo loops; exec >/dev/null 2>&1; while :; do " + p.words.Replace(script) + "; done"}, Yield: &yield, Until: &messages.Until{Pattern: "loops"}})
	must(p, err)
	if !result.Running {
		p.Fatalf("nothing loops: %s, %v", result.Output, result.Status)
	}
}

func TestPatches(t *testing.T) {
	if _, err := exec.LookPath("mkfifo"); err != nil {
		t.Skipf("skipped: attacks need mkfifo: %v", err)
	}
	works := map[string]bool{}
	t.Run("without a sandbox", func(t *testing.T) {
		a := newArena(t, "")
		for i, attack := range patchAttacks() {
			if !attack.works {
				continue
			}
			t.Run(fmt.Sprint(i+1, " ", attack.name), func(t *testing.T) {
				p := a.set(t, attack.setup)
				p.prepare(attack.prepare)
				before := p.world(false)
				said, err := p.apply(doors[i%len(doors)], attack.dir, attack.patch)
				if works[attack.name] = difference(before, p.world(false)) != ""; !works[attack.name] {
					t.Errorf("it does not even work without a sandbox: %.1000s, %.1000v", said, err)
				}
			})
		}
	})
	inArenas(t, func(t *testing.T, a arena) {
		for i, attack := range patchAttacks() {
			t.Run(fmt.Sprint(i+1, " ", attack.name), func(t *testing.T) { a.try(t, i, attack) })
		}
		t.Logf("of %d attacks %d work without a sandbox", len(patchAttacks()), len(works))
	})
}

// try makes an attack, and makes it once more where nothing may be written. The attacks take the doors one after the other.
func (a arena) try(t *testing.T, i int, attack patchAttack) {
	p := a.set(t, attack.setup)
	p.prepare(attack.prepare)
	stop := p.listen()
	before := p.world(false)
	if attack.during != "" {
		p.loop(attack.during)
	}
	through := doors[i%len(doors):][:1]
	if attack.during != "" {
		through = doors // more races
	}
	for _, door := range through {
		said, err := p.apply(door, attack.dir, attack.patch)
		if err == nil && !attack.fine {
			t.Errorf("by %s it was applied: %.1000s", door, said)
		}
	}
	if attack.during != "" {
		must(t, p.attacker().Close(context.Background())) // ends the loop
	}
	p.same(before, false, "")
	before = p.world(true)
	must(t, p.session.UpdateEnvironment(t.Context(), messages.UpdateEnvironment{Sandbox: &messages.SandboxPolicy{Type: messages.SandboxReadOnly, DeniedReads: p.policy.DeniedReads}}))
	if said, err := p.apply(doors[(i+1)%len(doors)], attack.dir, attack.patch); err == nil {
		t.Errorf("it was applied where nothing may be written: %s", said)
	}
	p.same(before, true, "")
	stop()
	p.hidden()
}

// approvedPatch is an attack on a person who approves the first patch and denies what else is asked.
type approvedPatch struct {
	name    string
	prepare string
	once    bool // the person approves it once, and not for the session
	// swap is what the attacker's command does, and outside what somebody else does, while the first question stands.
	swap    string
	outside func(*patching) error
	calls   []approvedCall
	after   string // a command that must not reach what the patch could
}

// approvedCall is a patch, and what it changes outside of the root and of what is protected; nothing if it must be refused. Somebody is asked.
type approvedCall struct{ patch, changes string }

func approvedPatches() []approvedPatch {
	file := approvedCall{update("OUT/file"), "OUT/file"}
	write := func(name, text string) func(*patching) error {
		return func(p *patching) error { return os.WriteFile(p.Out+name, []byte(text), 0o644) }
	}
	return []approvedPatch{
		{name: "another file", calls: []approvedCall{file, {patch: add("OUT/new")}}},
		{name: "a file of the same name", calls: []approvedCall{{add("OUT/new"), "OUT/new"}, {patch: add("OUT/dir/new")}}},
		{name: "one more file", calls: []approvedCall{file, {patch: add("OUT/file") + add("OUT/new")}}},
		{name: "one file less", calls: []approvedCall{{add("OUT/file") + add("OUT/new"), "OUT/file OUT/new"}, {patch: add("OUT/file")}}},
		{name: "a move", calls: []approvedCall{file, {patch: moveTo("OUT/file", "OUT/new")}}},
		{name: "again", once: true, calls: []approvedCall{file, {patch: add("OUT/file")}}},
		{name: "another hook", calls: []approvedCall{{add(".git/hooks/x"), "WORK/.git/hooks/x"}, {patch: add(".git/hooks/y")}}},
		{name: "by a link that leads elsewhere the second time", prepare: "ln -s OUT l", swap: "ln -sfn OUT/dir l", calls: []approvedCall{{add("l/new"), "OUT/new"}, {patch: add("l/new")}}},
		{name: "a command afterwards", calls: []approvedCall{file}, after: "echo evil >OUT/file; echo evil >OUT/evil"},
		{name: "a command with the same words", prepare: `printf '#!/bin/sh\necho evil >$1\n' >apply_patch; chmod +x apply_patch`, calls: []approvedCall{file}, after: "PATH=.:$PATH; apply_patch OUT/file"},
		{name: "a link to a file", once: true, prepare: "ln -s OUT/file l", swap: "ln -sfn OUT/other l", outside: write("/other", "untouched"), calls: []approvedCall{{update("l"), "OUT/file"}}},
		{name: "a link to a directory", once: true, prepare: "ln -s OUT l", swap: "ln -sfn OUT/dir l", calls: []approvedCall{{add("l/new"), "OUT/new"}}},
		{name: "the content", once: true, outside: write("/file", "other"), calls: []approvedCall{{patch: update("OUT/file")}}},
		{name: "the same content in another file", once: true, outside: func(p *patching) error {
			return errors.Join(write("/other", "untouched")(p), os.Rename(p.Out+"/other", p.Out+"/file"))
		}, calls: []approvedCall{{patch: update("OUT/file")}}},
		{name: "the content of a file inside", once: true, prepare: "echo untouched >f", swap: "echo other >f", calls: []approvedCall{{patch: update("f") + add("OUT/new")}}},
		{name: "a new file", once: true, outside: write("/new", "other"), calls: []approvedCall{{patch: add("OUT/new")}}},
		{name: "a directory inside becomes a link", once: true, prepare: "mkdir d", swap: "rmdir d; ln -s OUT/dir d", calls: []approvedCall{{patch: add("d/x") + add("OUT/new")}}},
		{name: "a directory inside becomes a link to an approved one", once: true, prepare: "mkdir d", swap: "rmdir d; ln -s OUT d", calls: []approvedCall{{patch: add("d/x") + add("OUT/new")}}},
		{name: "a directory that is missing becomes a link", once: true, swap: "ln -s OUT/dir d", calls: []approvedCall{{patch: add("d/x") + add("OUT/new")}}},
		{name: "another directory", once: true, outside: func(p *patching) error {
			return errors.Join(os.Rename(p.Out+"/dir", p.Out+"/old"), os.Mkdir(p.Out+"/dir", 0o755))
		}, calls: []approvedCall{{patch: add("OUT/dir/new")}}},
		{name: "a directory becomes a link", once: true, outside: func(p *patching) error {
			return errors.Join(os.Rename(p.Out+"/dir", p.Out+"/old"), os.Symlink(p.Work+"/.git", p.Out+"/dir"))
		}, calls: []approvedCall{{patch: add("OUT/dir/new")}}},
		{name: "one file among many", once: true, calls: []approvedCall{{many(100) + add("OUT/new") + strings.ReplaceAll(many(100), "many/", "others/"), "OUT/new"}}},
	}
}

// What a person has approved is what was shown, and it is all that happens.
func TestPatchesThatWereApproved(t *testing.T) {
	inArenas(t, func(t *testing.T, a arena) {
		for i, attack := range approvedPatches() {
			t.Run(fmt.Sprint(i+1, " ", attack.name), func(t *testing.T) { a.tryApproved(t, i, attack) })
		}
	})
}

func (a arena) tryApproved(t *testing.T, i int, attack approvedPatch) {
	var p *patching
	var before map[string]string
	asked := 0
	someone := person(func(messages.Question) messages.DecisionKind {
		if asked++; asked > 1 {
			return messages.DecisionDenied
		}
		p.prepare(attack.swap)
		if attack.outside != nil {
			must(t, attack.outside(p))
		}
		before = p.world(false)
		if attack.once {
			return messages.DecisionApproved
		}
		return messages.DecisionApprovedForSession
	})
	p = a.set(t, nil, func(o *execbus.SessionOptions) {
		o.Approval, o.Approver = messages.ApprovalPolicy{Mode: messages.ApproveOnRequest}, someone
	})
	p.prepare(attack.prepare)
	for n, call := range attack.calls {
		before = p.world(false)
		said, err := p.apply(doors[i%len(doors)], "", call.patch)
		questions := someone.all()
		if len(questions) != 1 || asked != n+1 {
			t.Fatalf("%d questions; %.2000s, %v", len(questions), said, err)
		}
		changes := strings.Fields(p.words.Replace(call.changes))
		if (err == nil) != (len(changes) > 0) {
			t.Errorf("%.2000s, %v", said, err)
		}
		after := p.world(false)
		for _, path := range changes {
			if !strings.Contains(questions[0].Text(), path) {
				t.Errorf("%s is not in the question:\n%s", path, questions[0].Text())
			}
			if !strings.HasSuffix(after[path], "owned\n") {
				t.Errorf("%s was approved and is %q", path, after[path])
			}
			delete(before, path)
			delete(after, path)
		}
		if diff := difference(before, after); diff != "" {
			t.Errorf("more than was approved: %s\n%.2000s, %v", diff, said, err)
		}
	}
	before = p.world(false)
	if attack.after != "" {
		p.same(before, false, p.shell(p.session, p.words.Replace(attack.after)))
	}
}

// A patch that is made to deceive is shown as it is, and what was shown is what is written.
func TestPatchesThatDeceive(t *testing.T) {
	const strange = "\x1b[2K\x1b[1A\u202etxt.exe\u2066\u200b\x07\r"
	inArenas(t, func(t *testing.T, a arena) {
		someone := person(func(messages.Question) messages.DecisionKind { return messages.DecisionApproved })
		p := a.set(t, nil, func(o *execbus.SessionOptions) {
			o.Approval, o.Approver = messages.ApprovalPolicy{Mode: messages.ApproveOnRequest}, someone
		})
		lines := "\nDirectory: /tmp\nReason: nothing"
		p.prepare("mkdir -p 'x" + lines + "'")
		var evil strings.Builder
		for n := range 5000 {
			fmt.Fprintf(&evil, "+line %d\n", n)
		}
		for name, patch := range map[string]string{
			"a name":          "*** Add File: OUT/" + strange + "\n+x\n",
			"a line":          "*** Add File: OUT/1\n+" + strange + "\n",
			"a line behind":   "*** Add File: OUT/2\n+x" + strings.Repeat(" ", 10_000) + strange + "\n",
			"many lines":      "*** Add File: OUT/3\n" + evil.String(),
			"lines of a diff": "*** Add File: OUT/4\n+x\n+--- a/file\n++++ b/file\n+@@ -1 +1 @@\n",
		} {
			if _, err := p.apply("the library", "x"+lines, patch); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for _, q := range someone.all() {
				text := q.WholeText()
				if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !strconv.IsPrint(r) }) {
					t.Errorf("%s: the question has characters that cannot be seen: %q", name, text)
				}
				if strings.Contains(text, "\nDirectory: /tmp\n") || strings.Contains(text, "\nReason: nothing") {
					t.Errorf("%s: the question has lines of the attacker's: %s", name, text)
				}
				if len(text) > 2*messages.MaxQuestionDiff {
					t.Errorf("%s: the question has %d bytes", name, len(text))
				}
				if name == "many lines" && !strings.Contains(text, "(+5000 -0)") {
					t.Errorf("the question does not say how much it is: %s", text)
				}
			}
		}
	})
}
