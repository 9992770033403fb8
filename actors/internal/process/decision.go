package process

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/internal/hostcode"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy"
	"github.com/execbus/execbus/policy/command"
	"github.com/execbus/execbus/ptyio"
)

// decision is the decision about a command, with the facts on which it is based.
type decision struct {
	launch   ptyio.Launch
	request  policy.Request
	snapshot policy.Snapshot
	plan     policy.Plan
	err      error
	missing  error // the program was found nowhere
	refused  error // the spawner cannot enforce the policy or the limits

	watch     watch           // what is seen of the programs that it executes
	enclosure ptyio.Enclosure // of a session whose policy confines; nil after an error
	widened   bool            // the enclosure is this decision's own
}

// checkSandbox asks the spawner whether it can enforce the first attempt's sandbox.
func (d *decision) checkSandbox(spawner ptyio.Spawner) {
	if d.err != nil {
		return
	}
	confined := d.plan.FirstAttempt != policy.Unsandboxed && d.snapshot.Sandbox.Confined()
	if !confined {
		d.refused = nil
	}
	launch := d.launch
	launch.Sandbox = d.sandbox()
	if d.refused == nil && d.watched() {
		d.refused = d.watch.refused
	}
	if d.refused == nil && (launch.Sandbox != nil || launch.Limits != messages.Limits{}) {
		_, d.refused = spawner.Can(launch)
	}
}

// sandbox is the enclosure of the first attempt; nil if nothing confines it.
func (d *decision) sandbox() ptyio.Enclosure {
	if d.plan.FirstAttempt == policy.Unsandboxed {
		return nil
	}
	return d.enclosure
}

// decide makes the plan for an order. Without a machine it looks at no file, which is enough unless looks reports true.
func decide(ctx context.Context, s *shared.Settings, o *shared.Command, machine ptyio.Resolver, plan func(policy.Request, policy.Snapshot) policy.Plan,
	can func(ptyio.Launch) (messages.Enforcement, error)) *decision {
	d := &decision{snapshot: policy.Snapshot{Approval: s.Approval, Sandbox: s.Sandbox, Rules: s.Rules, Unreadable: s.Unreadable,
		Dir: s.Dir, TempDir: shared.TempDir(s.Base)}}
	if d.launch, d.err = launch(ctx, s, o, machine); d.err != nil {
		return d
	}
	d.request = policy.Request{Argv: d.launch.Argv, Argv0: o.Argv0, Dir: d.launch.Dir, Environment: o.Environment,
		OpenInput: o.TTY || o.OpenStdin, CommandPolicy: o.CommandPolicy}
	if machine != nil {
		path := ptyio.SearchPath(d.launch.Env)
		if d.request.Program, d.missing = machine.Program(ctx, d.launch.Argv[0], d.launch.Dir, path); d.missing != nil {
			d.request.Program = policy.NotFound
		}
		if shell, err := machine.UserShell(ctx); err == nil && shell != "" {
			d.snapshot.TrustedShells = []string{shell}
		}
		if s.Rules != nil || mayAsk(s, o) || command.Dangerous(d.launch.Argv) {
			d.lookUp(ctx, machine, path)
		}
		d.request.Located = locate(ctx, machine, d.request)
	}
	d.enclose(ctx, s)
	d.watch = watchFor(s, d.enclosure, can)
	d.snapshot.Executions = d.watch.enforces()
	d.plan = plan(d.request, d.snapshot)
	d.bind()
	return d
}

// lookUp finds where the names in a script lead, and the files of commands that are known to be safe.
func (d *decision) lookUp(ctx context.Context, machine ptyio.Resolver, path string) {
	d.request.Path, d.request.Found = path, map[string]string{}
	for _, name := range policy.Names(d.request, d.snapshot.TrustedShells) {
		program, err := machine.Program(ctx, name, d.launch.Dir, path)
		if err != nil {
			program = policy.NotFound
		}
		d.request.Found[name] = program
	}
	if d.snapshot.Approval.Mode != messages.ApproveUntrusted {
		return // what is known to be safe makes no difference
	}
	d.request.Leads = map[string]string{}
	if follower, ok := machine.(ptyio.Follower); ok {
		for _, path := range policy.Files(d.request, d.snapshot.TrustedShells) {
			d.request.Leads[path], _ = follower.Leads(ctx, path) // one that cannot be told is not known
		}
	}
}

// maxLocated bounds the paths of one command that are followed; the sandbox takes no more.
const maxLocated = 16

// locate follows the paths of the additional permissions, where the machine can. Without one there are none.
func locate(ctx context.Context, machine ptyio.Resolver, r policy.Request) map[string]messages.Location {
	locator, can := machine.(ptyio.Locator)
	if !can || r.SandboxPermissions != messages.PermissionsWithAdditional || r.AdditionalPermissions == nil || r.AdditionalPermissions.FileSystem == nil {
		return nil
	}
	files, found := r.AdditionalPermissions.FileSystem, map[string]messages.Location{}
	paths := slices.Concat(files.Read, files.Write)
	for _, path := range paths[:min(len(paths), maxLocated)] {
		full := path
		if !filepath.IsAbs(path) {
			full = r.Dir + "/" + path
		}
		if at, err := locator.Locate(ctx, full); err == nil {
			found[path] = at
		}
	}
	return found
}

// located are additional permissions for what their paths have led to.
func located(more messages.AdditionalPermissions, found map[string]messages.Location) messages.AdditionalPermissions {
	more = messages.Clone(more)
	if more.FileSystem == nil {
		return more
	}
	for _, paths := range [][]string{more.FileSystem.Read, more.FileSystem.Write} {
		for i, path := range paths {
			if at, known := found[path]; known {
				paths[i] = at.Path
			}
		}
	}
	return more
}

// bind makes sure that the program which was looked at is the one that runs: a person may take long to answer, and PATH may
// lead elsewhere by then.
func (d *decision) bind() {
	name := d.launch.Argv[0]
	if filepath.IsAbs(d.request.Program) && !strings.Contains(name, "/") {
		if d.launch.Argv0 == "" {
			d.launch.Argv0 = name
		}
		d.launch.Argv = append([]string{d.request.Program}, d.launch.Argv[1:]...)
	}
}

// looks reports whether the plan must find the file of a program: to be sure that a shell is one, to apply rules and
// other knowledge about programs, and because the answer to a question is remembered for that file. Looking may wait
// for the file system, or for another machine.
func looks(s *shared.Settings, o *shared.Command) bool {
	return o.Script != "" || s.Rules != nil || mayAsk(s, o) || isShell(o.Argv[0])
}

// mayAsk reports whether knowledge about a program can lead to a question, or spare one.
func mayAsk(s *shared.Settings, o *shared.Command) bool {
	return s.Approval.Mode != messages.ApproveNever && s.Approval.String() != string(messages.ApproveOnRequest) ||
		o.SandboxPermissions != "" || command.Dangerous(o.Argv)
}

// launch turns a command into a launch without a sandbox. It looks at the machine for a script's shell, and only then.
func launch(ctx context.Context, s *shared.Settings, o *shared.Command, machine ptyio.Resolver) (ptyio.Launch, error) {
	made := ptyio.Launch{Argv: o.Argv, Argv0: o.Argv0, Dir: o.Dir, TTY: o.TTY, Size: o.Size, Unattended: o.TTY && !o.Attended,
		OpenStdin: o.OpenStdin, Merged: o.Merged, OnLeaderExit: o.OnLeaderExit, Grace: o.Grace, Limits: s.Limits.Tighter(o.Limits)}
	var err error
	if o.Script != "" {
		login := o.Login != nil && *o.Login
		if made.Argv, err = shellArgv(ctx, machine, s.Base, o.Script, o.Shell, login); err != nil {
			return made, err
		}
	}
	made.Dir = s.Within(made.Dir)
	made.Env, err = s.Env, s.EnvError
	if o.Environment != nil {
		made.Env, err = s.BuildEnvironment(*o.Environment, nil)
	}
	return made, err
}

// enclose waits for the session's enclosure, and widens it where the command asks for more. The decision then owns the
// widened one.
func (d *decision) enclose(ctx context.Context, s *shared.Settings) {
	e := s.Enclosing
	if e == nil || d.err != nil {
		return
	}
	d.enclosure, d.refused = e.Wait(ctx)
	if more := d.request.AdditionalPermissions; d.refused == nil && d.request.SandboxPermissions == messages.PermissionsWithAdditional && more != nil {
		d.enclosure, d.refused = shared.Enclosed(d.enclosure.Widen(ctx, located(*more, d.request.Located), d.launch.Dir))
		d.widened = d.refused == nil
	}
}

// discard releases the resources of a decision.
func (d *decision) discard() {
	if d != nil && d.widened {
		d.widened = false
		hostcode.Run(d.enclosure.Release)
	}
}

// Discard releases the resources of a plan that no actor takes.
func (m planned) Discard() { m.discard() }

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
