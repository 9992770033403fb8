package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/policy"
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

// runtime returns the options of the runtime. Rules that people make by their answers are written to the last named file, or to
// the user's own.
func (c *config) runtime() execbus.Options {
	if len(c.rules) > 0 {
		last := c.rules[len(c.rules)-1]
		if info, err := os.Stat(last); err == nil && info.IsDir() {
			last = filepath.Join(last, "default.rules")
		}
		return execbus.Options{Rules: layers(c.rules), AmendmentFile: last}
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return execbus.Options{}
	}
	own := filepath.Join(dir, "execbus", "rules")
	_ = os.MkdirAll(filepath.Dir(own), 0o700) // so that a rule has a place; an error is reported when one is written
	return execbus.Options{Rules: []execbus.RuleLayer{{Dir: own, Trusted: true}}, AmendmentFile: filepath.Join(own, "default.rules")}
}

// session returns the options of sessions.
func (c *config) session() execbus.SessionOptions {
	return execbus.SessionOptions{Dir: c.dir, Approval: c.approval, Sandbox: &c.sandbox, LeastAssurance: c.assurance, Limits: c.limits,
		NoLoginShell: c.noLoginShell}
}

// start starts a runtime. If a rule file that a setting names cannot be used, that is an error, because the file may forbid something.
// For one of the user's own files there is only a warning.
func (c *config) start(std streams) (*execbus.Runtime, error) {
	rt, err := execbus.Start(c.runtime())
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
	fmt.Fprintln(std.err, "execbus: a rule file is ignored because of an error:", policy.Visible(wrong.Error()))
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
