package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/internal/follow"
	"github.com/execbus/execbus/internal/keep"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/record"
)

// setRules sets the rule files and directories, which must exist.
func setRules(c *config, paths []string) error {
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil {
			return err
		}
	}
	c.rules = paths
	return nil
}

// ruleLayers returns the rules: those that a setting names, or the user's own. Rules that people make by their answers are written to
// the file amendments, which is the last named one, or one of the user's own. Without a configuration directory there are none.
func (c *config) ruleLayers() (all []execbus.RuleLayer, amendments string) {
	const fallback = "default.rules"
	if len(c.rules) > 0 {
		last := c.rules[len(c.rules)-1]
		if isDir(last) {
			last = filepath.Join(last, fallback)
		}
		return layers(c.rules), last
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return nil, ""
	}
	own := filepath.Join(dir, "execbus", "rules")
	return []execbus.RuleLayer{{Dir: own, Trusted: true}}, filepath.Join(own, fallback)
}

// layers makes each file a layer, so that later files win.
func layers(files []string) []execbus.RuleLayer {
	var all []execbus.RuleLayer
	for _, file := range files {
		layer := execbus.RuleLayer{Files: []string{file}, Trusted: true}
		if isDir(file) {
			layer = execbus.RuleLayer{Dir: file, Trusted: true}
		}
		all = append(all, layer)
	}
	return all
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// session returns the options of sessions.
func (c *config) session() execbus.SessionOptions {
	return execbus.SessionOptions{Dir: c.dir, Approval: c.approval, Sandbox: &c.sandbox, LeastAssurance: c.assurance, Limits: c.limits,
		NoLoginShell: c.noLoginShell, Executions: c.executions, RecordRaw: c.recordRaw, Record: record.Options{Dir: c.record, Input: c.recordInput}}
}

// start starts a runtime. If a rule file that a setting names cannot be used, that is an error, because the file may forbid something.
// For one of the user's own files there is only a warning.
func (c *config) start(std streams) (*execbus.Runtime, error) {
	all, amendments := c.ruleLayers()
	if len(c.rules) == 0 && amendments != "" {
		_ = os.MkdirAll(filepath.Dir(filepath.Dir(amendments)), 0o700) // so that a rule has a place; an error is reported when one is written
	}
	self, err := os.Executable()
	if err != nil {
		self = "" // the one in PATH
	}
	rt, err := keep.Start(c.output, std.warn, func(dir string) (*execbus.Runtime, error) {
		return execbus.Start(execbus.Options{Rules: all, AmendmentFile: amendments, Program: self, Audit: c.audit,
			Spool: execbus.SpoolOptions{Dir: dir, PerProcess: c.output.PerProcess, Total: c.output.Total}})
	})
	if err != nil {
		return nil, err
	}
	wrong := errors.Join(rt.RuleErrors()...)
	if wrong == nil {
		return rt, nil
	}
	if len(c.rules) > 0 {
		return nil, errors.Join(wrong, shutdown(rt))
	}
	fmt.Fprintln(std.err, "execbus: a rule file is ignored because of an error:", messages.Visible(wrong.Error()))
	return rt, nil
}

// shutdownTime bounds the shutdown of everything.
const shutdownTime = 10 * time.Second

// shutdown ends a runtime and everything that it runs.
func shutdown(rt *execbus.Runtime) error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	return rt.Shutdown(ctx)
}

// settle makes a directory the workspace, by default the current directory. It refuses that one if it may be a mistake, and warns if
// another may be. flag is the name of the setting for it.
func (c *config) settle(flag, dir string, std streams) error {
	here, err := follow.Here()
	if c.dir = dir; dir == "" {
		c.dir, c.here = here, true
	}
	if err != nil && c.here && (here == "" || c.sandbox.Type == messages.SandboxWorkspaceWrite) {
		return fmt.Errorf("%w; name the workspace by its absolute path with %s", err, flag)
	}
	home, _ := os.UserHomeDir()
	if c.sandbox.Type == messages.SandboxWorkspaceWrite && (c.dir == "/" || c.dir == home) {
		fmt.Fprintf(std.err, "execbus: commands can write everything below %s; name a smaller workspace with %s\n", c.dir, flag)
	}
	return nil
}

// adviseAssurance tells the user which setting would accept less, if the machine cannot enforce enough of the sandbox. It is silent
// about other errors: a limit, for example, that cannot be enforced is refused at every level.
func adviseAssurance(err error, std streams) {
	if refusal, ok := errors.AsType[*messages.Error](err); ok && refusal.Enforceable != "" {
		fmt.Fprintf(std.err, "execbus: \"execbus doctor\" lists what is missing; %s %s accepts less\n", assuranceFlag, refusal.Enforceable)
	}
}

// The settings for the sandbox, as a person is told about them.
const (
	sandboxFlags  = "--sandbox, --network and --writable"
	assuranceFlag = "--assurance"
)
