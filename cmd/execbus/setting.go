package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/execserver"
	"github.com/execbus/execbus/internal/keep"
	"github.com/execbus/execbus/internal/size"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/hosts"
	"github.com/execbus/execbus/tools"
)

// setting is something that a person can choose. Its flag is --name, its environment variable EXECBUS_NAME and its key in the
// file name, with _ for - in the last two.
type setting struct {
	name      string
	short     string // another name of the flag; empty if there is none
	commands  string // those that have it
	value     string // the placeholder for the value in the help; empty for a switch
	several   bool   // more than one value: the flag is repeated, the variable has colons between them, the file has a list
	spaced    bool   // the variable has spaces between several values instead, which may contain colons
	workspace bool   // the value is a path below which commands may write
	path      bool   // the value is a path; relative to the working directory, or to the file's directory in the file
	negated   bool   // a switch that also has the flag --no-name
	also      string // what a switch can be besides true and false; empty for nothing
	once      bool   // it concerns one call, so it is a flag only
	initial   string // the default, in words; empty if there is none, and for a switch that is off
	meaning   string
	set       func(c *config, values []string) error
}

// config holds the values of the settings.
type config struct {
	dir, cd                                    string
	here                                       bool // what commands may write depends on the working directory
	approval                                   messages.ApprovalPolicy
	sandbox                                    messages.SandboxPolicy
	network, asks                              bool
	hosts                                      []messages.HostRule
	writable                                   []string
	assurance                                  messages.Assurance
	rules                                      []string // files and directories, by absolute paths; none: the user's own
	limits                                     messages.Limits
	timeout                                    time.Duration
	until                                      *messages.Until
	tty                                        *bool // nil: if the caller is on a terminal
	json, check                                bool
	noLoginShell, hideShell, detach, withOwner bool
	http, tokenFile, proxy                     string
	noAuth                                     bool
	listen, tlsCert, tlsKey, clientCA          string
	fileRoots                                  []string
	maxProcesses                               int
	output                                     keep.Setting
	view                                       messages.View
	executions                                 messages.ExecutionMode
	audit                                      execbus.AuditOptions
	record                                     string
	recordInput, recordRaw                     bool
	window, windowCert, windowKey              string
	windowHosts                                []string
	windowViewers, windowInsecure              bool
}

// settings are all settings, in the order of the help.
var settings = []setting{
	{name: "dir", commands: "mcp serve patch", value: "DIR", workspace: true, path: true, initial: "the current directory",
		meaning: "the workspace, and where commands run that name no other directory; clients of serve always name one", set: one(func(c *config, s string) error { c.dir = s; return nil })},
	{name: "cd", commands: "run", value: "DIR", workspace: true, path: true, once: true, initial: "the current directory",
		meaning: "the workspace, and where the command runs", set: one(func(c *config, s string) error { c.cd = s; return nil })},
	{name: "approval", commands: "mcp run patch", value: "POLICY", initial: "on-request",
		meaning: "when to ask a person before a command runs: untrusted, on-failure, on-request, never, granular, or a policy in JSON",
		set: one(func(c *config, s string) (err error) {
			c.approval, err = messages.ParseApprovalPolicy(s)
			return err
		})},
	{name: "sandbox", commands: "mcp run serve patch policy", value: "POLICY", initial: "workspace-write for mcp, run, patch and policy; danger-full-access for serve, whose clients choose a sandbox for each command",
		meaning: "what commands may do: read-only, workspace-write, danger-full-access, external-sandbox if something else confines them, or a policy in JSON",
		set: one(func(c *config, s string) (err error) {
			c.sandbox, err = messages.ParseSandboxPolicy(s)
			return err
		})},
	{name: "network", commands: "mcp run serve policy", also: "ask", meaning: "let confined commands use the network; or, with =ask, the hosts that rules and --allow-host allow, " +
		"and those that a person allows when a command wants to talk to them. To ask takes a sandbox that isolates, and serve cannot ask", set: one(setNetwork)},
	{name: "allow-host", commands: "mcp run", value: "HOST", several: true, spaced: true,
		meaning: "let confined commands talk to a host and to no other that rules do not allow: a name, *.NAME, **.NAME, an address or a range, then :PORT, then /http, /https or /tcp. " +
			"It takes a sandbox that isolates. The variable has spaces between several hosts",
		set: setHosts},
	{name: "writable", commands: "mcp run serve patch policy", value: "DIR", several: true, workspace: true, path: true, meaning: "let commands under workspace-write write below another directory",
		set: func(c *config, dirs []string) error { c.writable = dirs; return nil }},
	{name: "assurance", commands: "mcp run serve patch policy", value: "LEVEL", initial: "isolated where the workspace holds a protected name such as .git, confined elsewhere",
		meaning: "the least to accept of the sandbox: isolated, confined or none",
		set: one(func(c *config, s string) error {
			c.assurance = messages.Assurance(s)
			return c.assurance.Check()
		})},
	{name: "rules", short: "r", commands: "mcp run policy patch", value: "FILE", several: true, path: true, initial: "execbus/rules in your configuration directory",
		meaning: "rules that allow or forbid commands, or ask about them: a file, or a directory whose files *.rules are read",
		set:     setRules},
	{name: "executions", commands: "mcp run", value: "MODE", initial: "enforce, where a rule forbids or asks, a sandbox confines the command and the machine can do it; otherwise off",
		meaning: "whether rules hold for every program that a command executes, in all its processes: enforce, report (count and publish them, and prevent nothing) or off. " +
			"With enforce, what a rule forbids fails with \"Permission denied\", and a rule that asks leads to a question while the program waits",
		set: one(func(c *config, s string) error {
			c.executions = messages.ExecutionMode(s)
			if s == "" {
				return errors.New("it is empty; use off, report or enforce")
			}
			return c.executions.Check()
		})},
	{name: "limit", commands: "mcp run", value: "NAME=VALUE", several: true,
		meaning: "end a command when it reaches output=BYTES, cpu=TIME, wall=TIME, memory=BYTES or processes=N; files=N bounds its open files. " +
			"BYTES may end in K, M or G; a TIME looks like 30s",
		set: setLimits},
	{name: "timeout", commands: "run", value: "TIME", meaning: "end the command after this time, such as 10m, with exit code 124", set: one(setTimeout)},
	{name: "until", commands: "run", value: "REASON", once: true,
		meaning: `end the command, with exit code 0, when it waits for input: awaiting_input; or for the first of the reasons in a JSON object: {"awaiting_input":true, ` +
			`"listening":8080, "pattern":"REGEXP", "quiet_ms":500, "quiet_after_output_ms":500}, where port 0 is any TCP port`,
		set: one(func(c *config, s string) (err error) {
			c.until, err = tools.ParseUntil(s)
			return err
		})},
	{name: "tty", commands: "run", negated: true, initial: "a terminal if standard input and output are one",
		meaning: "run the command on a terminal of its own, or on pipes", set: setTTY},
	{name: "check", commands: "patch", once: true, meaning: "say whether the patch can be applied without a question, and change nothing",
		set: yes(func(c *config) *bool { return &c.check })},
	{name: "json", commands: "run patch", once: true, meaning: "print JSON: run prints events instead of the output, one object a line, with output in base64, and patch one object",
		set: yes(func(c *config) *bool { return &c.json })},
	{name: "keep-output", commands: "mcp run serve", negated: true, initial: "on for mcp and serve, where you have a home directory, and off for run",
		meaning: "keep all output of commands in ~/.local/state/execbus: mcp and serve in files without names, until the commands are forgotten, so that it can be read although it is too much for memory; " +
			"run in a file in kept, which it names in the end",
		set: one(func(c *config, value string) error {
			on, err := truth(value)
			c.output.Said = &on
			return err
		})},
	{name: "output-quota", commands: "mcp run serve", value: "BYTES", initial: "1G",
		meaning: "how much is kept of the output of one command: beyond it, not the middle. BYTES may end in K, M or G",
		set: one(func(c *config, value string) (err error) {
			c.output.PerProcess, err = keep.Quota(value)
			return err
		})},
	{name: "output-total", commands: "mcp run serve", value: "BYTES", initial: "8G", meaning: "how much is kept of the output of all commands; the oldest gives way",
		set: one(func(c *config, value string) (err error) {
			c.output.Total, err = keep.Quota(value)
			return err
		})},
	{name: "audit", commands: "mcp run", value: "FILE", path: true,
		meaning: "record decisions, starts, inputs by their length, signals, answers, patches, connections and ends in a file, in which every change is found: see execbus audit. " +
			"One program at a time writes it. Commands cannot change it where they are isolated, or where it is outside of the workspace",
		set: one(func(c *config, s string) error { c.audit.File = s; return nil })},
	{name: "audit-full", commands: "mcp run", value: "MODE", initial: "stop",
		meaning: "what happens while that file cannot be written: stop lets nothing new begin, drop counts what is not recorded", set: one(setAuditFull)},
	{name: "record", commands: "mcp run", value: "PATH", path: true,
		meaning: "record what commands print, for execbus play and other players of asciicast: mcp in a directory, a file for each command; run in a new file, or in a directory that exists",
		set:     one(func(c *config, path string) error { c.record = path; return nil })},
	{name: "record-input", commands: "mcp run", also: "raw",
		meaning: "record input, too: the lines that a terminal shows; or, with =raw, also keys and what goes into pipes, which may be passwords. What a terminal does not show is never recorded",
		set: one(func(c *config, value string) (err error) {
			if c.recordRaw = value == "raw"; c.recordRaw {
				c.recordInput = true
				return nil
			}
			if c.recordInput, err = truth(value); err != nil {
				err = fmt.Errorf("%q is neither true nor false nor raw", value)
			}
			return err
		})},
	{name: "view", commands: "mcp", value: "FORM", initial: "text",
		meaning: "how answers show output, where a call does not say it: raw, the bytes as they came; text, without escape sequences and with progress bars in their last " +
			"state, or the screen of a full-screen program; or screen, that of the terminal",
		set: one(func(c *config, s string) error {
			c.view = messages.View(s)
			return c.view.Check()
		})},
	{name: "no-login-shell", commands: "mcp", meaning: "do not run scripts in login shells, and refuse calls that ask for one",
		set: yes(func(c *config) *bool { return &c.noLoginShell })},
	{name: "hide-shell", commands: "mcp", meaning: "do not let calls choose the shell", set: yes(func(c *config) *bool { return &c.hideShell })},
	{name: "detach", commands: "mcp",
		meaning: "when standard input ends, let processes end by themselves, and end after them; otherwise the server ends them, and itself within their grace and a second",
		set:     yes(func(c *config) *bool { return &c.detach })},
	{name: "with-parent", commands: "mcp",
		meaning: "end when the process that started the server has ended, too; not for launchers that end early",
		set:     yes(func(c *config) *bool { return &c.withOwner })},
	{name: "http", commands: "mcp", value: "ADDRESS",
		meaning: "serve over HTTP at an address such as 127.0.0.1:8123; port 0 takes a free one. The URL is the first line of standard output",
		set:     one(func(c *config, s string) error { c.http = s; return nil })},
	{name: "window", commands: "mcp serve", value: "ADDRESS",
		meaning: "serve a page for people at an address such as 127.0.0.1:8900; port 0 takes a free one. They see what runs and can end it; with mcp they " +
			"also answer questions and take the keyboard of terminals. The link, which is good for one browser, is printed on standard error",
		set: one(func(c *config, s string) error { c.window = s; return nil })},
	{name: "window-viewers", commands: "mcp serve", meaning: "also print a link of the window for people who can look and nothing else",
		set: yes(func(c *config) *bool { return &c.windowViewers })},
	{name: "window-host", commands: "mcp serve", value: "NAME", several: true, meaning: "another name or address under which people reach the window; one at 0.0.0.0 needs it",
		set: func(c *config, names []string) error { c.windowHosts = names; return nil }},
	{name: "window-cert", commands: "mcp serve", value: "FILE", path: true, meaning: "serve the window over TLS with the certificate in a PEM file",
		set: one(func(c *config, s string) error { c.windowCert = s; return nil })},
	{name: "window-key", commands: "mcp serve", value: "FILE", path: true, meaning: "the private key of that certificate",
		set: one(func(c *config, s string) error { c.windowKey = s; return nil })},
	{name: "window-insecure", commands: "mcp serve", meaning: "serve the window without TLS at an address that is not a loopback address",
		set: yes(func(c *config) *bool { return &c.windowInsecure })},
	{name: "token-file", commands: "mcp serve", value: "FILE", path: true,
		initial: "a token is made and printed: by mcp as the second line of standard output, by serve in the URL",
		meaning: `a file with the token that clients over TCP must send as "Authorization: Bearer TOKEN"`,
		set:     one(func(c *config, s string) error { c.tokenFile = s; return nil })},
	{name: "no-auth", commands: "mcp serve", meaning: "over TCP, admit everyone who can reach the address, which must be a loopback address",
		set: yes(func(c *config) *bool { return &c.noAuth })},
	{name: "listen", commands: "serve", value: "URL", initial: "ws://127.0.0.1:0",
		meaning: "ws://IP:PORT, where port 0 means a free one; unix:///PATH; or stdio",
		set:     one(func(c *config, s string) error { c.listen = s; return nil })},
	{name: "tls-cert", commands: "serve", value: "FILE", path: true, meaning: "the server's certificate in PEM, to serve wss",
		set: one(func(c *config, s string) error { c.tlsCert = s; return nil })},
	{name: "tls-key", commands: "serve", value: "FILE", path: true, meaning: "the key of that certificate",
		set: one(func(c *config, s string) error { c.tlsKey = s; return nil })},
	{name: "client-ca", commands: "serve", value: "FILE", path: true,
		meaning: "certificate authorities in PEM: admit clients with a certificate from one of them; they need a token only with --token-file",
		set:     one(func(c *config, s string) error { c.clientCA = s; return nil })},
	{name: "proxy", commands: "connect", value: "URL", initial: "that of the proxy variables",
		meaning: "the proxy to connect through, to whatever host", set: one(func(c *config, s string) error { c.proxy = s; return nil })},
	{name: "max-processes", commands: "serve", value: "N", initial: strconv.Itoa(execserver.DefaultMaxProcesses),
		meaning: "how many processes of one client may live at a time", set: one(setMaxProcesses)},
	{name: "file-root", commands: "serve", value: "DIR", several: true, path: true, initial: "all files, or none with --sandbox",
		meaning: "a directory in which clients may read and write files by the protocol's own methods; it does not restrict commands",
		set:     func(c *config, dirs []string) error { c.fileRoots = dirs; return nil }},
}

func (s setting) key() string      { return strings.ReplaceAll(s.name, "-", "_") }
func (s setting) variable() string { return "EXECBUS_" + strings.ToUpper(s.key()) }

// of returns the settings of a command.
func of(command string) []setting {
	var all []setting
	for _, s := range settings {
		for _, c := range strings.Fields(s.commands) {
			if c == command {
				all = append(all, s)
			}
		}
	}
	return all
}

// one is for a setting with one value: the last one counts.
func one(set func(c *config, value string) error) func(*config, []string) error {
	return func(c *config, values []string) error { return set(c, values[len(values)-1]) }
}

// yes is for a switch.
func yes(field func(c *config) *bool) func(*config, []string) error {
	return one(func(c *config, value string) (err error) {
		*field(c), err = truth(value)
		return err
	})
}

func truth(value string) (bool, error) {
	on, err := strconv.ParseBool(value)
	if err != nil {
		return false, fmt.Errorf("%q is neither true nor false", value)
	}
	return on, nil
}

// setNetwork says whether commands may use the network, or whether a person is asked about hosts.
func setNetwork(c *config, value string) (err error) {
	if c.asks = value == "ask"; c.asks {
		c.network = false
		return nil
	}
	if c.network, err = truth(value); err != nil {
		err = fmt.Errorf("%q is neither true nor false nor ask", value)
	}
	return err
}

func setTTY(c *config, values []string) error {
	on, err := truth(values[len(values)-1])
	c.tty = &on
	return err
}

func setTimeout(c *config, value string) error {
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is not a time; use one such as 90s or 10m", value)
	}
	c.timeout = d
	return nil
}

func setMaxProcesses(c *config, value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n <= 0 {
		return fmt.Errorf("%q is no number of processes; use 1 or more", value)
	}
	c.maxProcesses = n
	return nil
}

// absolute makes the values of a path absolute.
func (s setting) absolute(values []string, dir string) ([]string, error) {
	if !s.path {
		return values, nil
	}
	var all []string
	for _, value := range values {
		if value == "" {
			return nil, fmt.Errorf("it is empty; name a path")
		}
		if !filepath.IsAbs(value) {
			value = filepath.Join(dir, value)
		}
		all = append(all, filepath.Clean(value))
	}
	return all, nil
}

// setLimits sets the limits of commands, each NAME=VALUE.
func setLimits(c *config, values []string) error {
	c.limits = messages.Limits{}
	for _, value := range values {
		if err := setLimit(&c.limits, value); err != nil {
			return err
		}
	}
	return nil
}

// setLimit sets one of the limits: NAME=VALUE.
func setLimit(l *messages.Limits, text string) error {
	name, value, _ := strings.Cut(text, "=")
	var err error
	switch name {
	case "output":
		l.OutputBytes, err = size.Parse(value)
	case "memory":
		l.MemoryBytes, err = size.Parse(value)
	case "cpu":
		l.CPUTime, err = time.ParseDuration(value)
	case "wall":
		l.WallTime, err = time.ParseDuration(value)
	case "processes":
		l.Processes, err = strconv.Atoi(value)
	case "files":
		l.OpenFiles, err = strconv.Atoi(value)
	default:
		return fmt.Errorf("there is no limit %q; use output, cpu, wall, memory, processes or files", name)
	}
	if err != nil {
		return fmt.Errorf("%q is not a value for the limit %s", value, name)
	}
	return l.Check()
}

// setHosts sets the hosts that commands may talk to.
func setHosts(c *config, values []string) error {
	c.hosts = nil
	for _, value := range values {
		if _, host, is := strings.Cut(value, "://"); is {
			return fmt.Errorf("%q is a URL; name its host alone, such as %s", value, strings.SplitN(host, "/", 2)[0])
		}
		rule := messages.HostRule{Host: value, Decision: messages.HostAllow}
		for _, protocol := range []messages.HostProtocol{messages.HostHTTP, messages.HostHTTPS, messages.HostTCP} {
			if host, found := strings.CutSuffix(value, "/"+string(protocol)); found {
				rule.Host, rule.Protocol = host, protocol
			}
		}
		if err := hosts.Check(rule); err != nil {
			return fmt.Errorf("%q: %w", value, err)
		}
		c.hosts = append(c.hosts, rule)
	}
	return nil
}
