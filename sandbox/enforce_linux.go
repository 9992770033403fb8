package sandbox

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/isolate"
)

// enforcement returns the strongest possible enforcement, or an error if that is less than the least accepted one.
func (e *enclosure) enforcement() (messages.Enforcement, error) {
	isolation := e.unisolatable()
	if isolation == nil {
		return e.isolated(), nil
	}
	best := messages.Enforcement{Level: messages.AssuranceNone, Missing: []messages.Missing{*isolation}}
	if why := unconfinable(); why != nil {
		best.Missing = append(best.Missing, *why)
	} else {
		best = e.confined(*isolation)
	}
	least, because := e.least()
	if best.Level.AtLeast(least) {
		return best, nil
	}
	return messages.Enforcement{}, e.tooLittle(best, least, because)
}

// unisolatable says why nothing can be isolated; nil if it can.
func (e *enclosure) unisolatable() *messages.Missing {
	if e.spawner.unisolated != "" {
		return &messages.Missing{What: "isolation", Why: e.spawner.unisolated}
	}
	if errno := confine.Filters(); errno != 0 {
		return failedStep("isolation", "seccomp", "seccomp", errno)
	}
	err, _ := isolate.Probe(!e.Plan.Network)
	if err == nil {
		return nil
	}
	missing := &messages.Missing{What: "isolation", Why: "the kernel refuses namespaces: " + err.Error()}
	if failed, is := errors.AsType[*birth.Error](err); is {
		missing.Why = "the kernel refuses a step of it: " + failed.Step
		missing.Step, missing.Errno = failed.Step, int(failed.Errno)
		if failed.Errno != 0 {
			missing.Why += ": " + failed.Errno.Error()
		}
	}
	return missing
}

// isolated returns full enforcement, except for the parts that this kernel lacks.
func (e *enclosure) isolated() messages.Enforcement {
	kernel := confine.Kernel()
	r := messages.Enforcement{Level: messages.AssuranceIsolated, LandlockABI: kernel.ABI,
		Mechanisms: []string{"namespaces", "landlock", "seccomp", "no_new_privs", "capabilities"}}
	if kernel.ABI == 0 {
		r.Mechanisms = slices.Delete(r.Mechanisms, 1, 2)
		r.Missing = append(r.Missing, *failedStep("a second restriction of files", "Landlock", "landlock_create_ruleset", kernel.Errno))
	}
	if _, err := isolate.Probe(!e.Plan.Network); err != nil {
		r.Missing = append(r.Missing, messages.Missing{What: "hiding of other processes' names", Why: "the kernel gives no /proc of its own: " + err.Error()})
	}
	if len(e.Plan.Sockets) > 0 && kernel.ABI < unixSockets { // a filter cannot tell one from another
		r.Missing = append(r.Missing, needsABI("protection of unix sockets that are not listed", unixSockets))
	}
	if len(e.Plan.Sockets) > 0 && e.Plan.Network && kernel.ABI < abstracts {
		r.Missing = append(r.Missing, needsABI("protection of abstract unix sockets", abstracts))
	}
	r.Missing = append(r.Missing, e.Gaps...)
	return r
}

// unconfinable says why nothing can be confined; nil if it can.
func unconfinable() *messages.Missing {
	kernel := confine.Kernel()
	if kernel.ABI == 0 {
		return failedStep("restriction of files", "Landlock", "landlock_create_ruleset", kernel.Errno)
	}
	if errno := confine.Filters(); errno != 0 {
		return failedStep("restriction of system calls", "seccomp", "seccomp", errno)
	}
	return unborn()
}

// unborn says why no command can take restrictions upon itself before it executes its program; nil if it can.
func unborn() *messages.Missing {
	failed, is := errors.AsType[*birth.Error](birth.Refused())
	if !is {
		return nil
	}
	return &messages.Missing{What: "restrictions before a program is executed", Step: "clone", Errno: int(failed.Errno),
		Why: "the kernel lets no child share its parent's memory, as under a user-mode emulator (clone: " + failed.Errno.Error() + "); " +
			"commands run here with --sandbox danger-full-access"}
}

func failedStep(what, mechanism, step string, errno unix.Errno) *messages.Missing {
	return &messages.Missing{What: what, Why: fmt.Sprintf("the kernel gives no %s: %s: %s", mechanism, step, errno.Error()), Step: step, Errno: int(errno)}
}

// confined returns the part of the plan that Landlock and seccomp enforce. isolation says why it is not isolated.
func (e *enclosure) confined(isolation messages.Missing) messages.Enforcement {
	kernel, plan := confine.Kernel(), e.Plan
	r := messages.Enforcement{Level: messages.AssuranceConfined, LandlockABI: kernel.ABI,
		Mechanisms: []string{"landlock", "seccomp", "no_new_privs", "capabilities"}}
	miss := func(what, why string) {
		r.Missing = append(r.Missing, messages.Missing{What: what, Why: why, Step: isolation.Step, Errno: isolation.Errno})
	}
	if name := e.Protects(); name != "" {
		miss("protection of "+name+" and others like it", isolation.Why)
	} else if plan.Writes() {
		miss("protection of names that do not exist yet", isolation.Why)
	}
	if path := e.Denies(); path != "" {
		miss("denial to read "+path, isolation.Why)
	}
	miss("hiding of other processes", isolation.Why)
	if plan.Writes() {
		miss("mode, owner, times and attributes of files elsewhere", isolation.Why)
	}
	switch {
	case kernel.ABI < signals:
		r.Missing = append(r.Missing, needsABI("protection of other processes from signals", signals))
	case kernel.SignalsUnsound:
		r.Missing = append(r.Missing, messages.Missing{What: "protection of other processes from signals",
			Why: "this kernel has a known defect in it (the second Landlock erratum)"})
	}
	if len(plan.Sockets) > 0 && kernel.ABI < unixSockets {
		r.Missing = append(r.Missing, needsABI("use of the listed sockets", unixSockets))
	}
	r.Missing = append(r.Missing, e.Gaps...)
	return r
}

// The first versions of Landlock that can restrict signals, abstract unix sockets and those with a path.
const (
	signals     = 6
	abstracts   = 6
	unixSockets = 9
)

func needsABI(what string, abi int) messages.Missing {
	return messages.Missing{What: what, Why: fmt.Sprintf("it needs version %d of Landlock, and the kernel has %d", abi, confine.Kernel().ABI)}
}

// least returns the weakest level that is accepted. If nobody has chosen it, because gives the reason for it.
func (e *enclosure) least() (least messages.Assurance, because string) {
	if e.proxied() {
		return messages.AssuranceIsolated, "its commands may talk to named hosts only, for which they need a network of their own"
	}
	if least = e.confinement.Least; least != "" {
		return least, ""
	}
	if name := e.Protects(); name != "" {
		return messages.AssuranceIsolated, name + " lies where commands can write, and must stay as it is"
	}
	if path := e.Denies(); path != "" {
		return messages.AssuranceIsolated, path + " must not be read"
	}
	return messages.AssuranceConfined, ""
}

// proxied reports whether the commands reach named hosts only, through a proxy.
func (e *enclosure) proxied() bool { return e.Plan.Proxied && !e.Plan.Network }

// tooLittle returns a refusal. It says what is missing, why, and which level would accept it.
func (e *enclosure) tooLittle(best messages.Enforcement, least messages.Assurance, because string) error {
	detail := fmt.Sprintf("%q has to be enforced as %q", e.confinement.Policy, least)
	if because != "" {
		detail += ", because " + because
	}
	detail += fmt.Sprintf("; there is no more than %q here. Missing:", best.Level)
	for i, m := range best.Missing {
		if i > 0 {
			detail += ","
		}
		detail += " " + m.String()
	}
	if e.proxied() { // no level but this one accepts it
		return &messages.Error{Code: messages.ErrUnsupported, Op: "spawn", Subject: "sandbox",
			Detail: detail + "; let the host make namespaces, or give commands no network or all of it"}
	}
	return &messages.Error{Code: messages.ErrUnsupported, Op: "spawn", Subject: "sandbox", Enforceable: best.Level,
		Detail: detail + fmt.Sprintf("; accept it with the least assurance %q, or change the policy", string(best.Level)),
		Hint:   "set SessionOptions.LeastAssurance"}
}
