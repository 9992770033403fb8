package denial

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/execbus/execbus/internal/placeholder"
	"github.com/execbus/execbus/messages"
)

// Facts are the known facts about a command that has ended in a sandbox.
type Facts struct {
	Status messages.ExitStatus
	// Output is the output on all streams. Of a long output the beginning and the end are enough.
	Output []byte
	// Dir is the command's working directory. Relative paths in the output are relative to it.
	Dir string
	// Command is what ran. Directories to which it goes by itself are looked for in it.
	Command []string
	Rules   Rules

	text  string   // the command, or the beginning of a long one
	moves []string // the directories outside of what may be written to which it goes
}

// Bounds of what is looked for in a command.
const (
	maxCommand = 64 << 10 // bytes
	maxMoves   = 16
)

// Of reports what the sandbox stopped; nil if it stopped nothing. It is a pure function, and takes milliseconds for a
// megabyte of output.
func Of(f Facts) *messages.Denial {
	code, known := f.Status.Code()
	switch {
	case !known || code == 0:
		return nil
	case f.Status == messages.StatusSignaled(syscall.SIGSYS):
		return &messages.Denial{Operation: privileged.String(), Rule: ruleCalls}
	}
	var best *messages.Denial
	lines := suspiciousLines(f.Output)
	if len(lines) > 0 {
		f.look()
	}
	for _, line := range lines {
		if d := f.judge(line); worth(d) > worth(best) {
			best = d
		}
	}
	if best == nil && code == 128+int(syscall.SIGSYS) { // a shell reports it like this
		return &messages.Denial{Operation: privileged.String(), Rule: ruleCalls, FromText: true}
	}
	return best
}

// worth orders denials: certain ones before guesses, and those that name something before those that do not.
func worth(d *messages.Denial) int {
	if d == nil {
		return 0
	}
	worth := 1
	if !d.FromText {
		worth += 2
	}
	if d.Path != "" || d.Address != "" {
		worth++
	}
	return worth
}

// judge reports what one line proves.
func (f Facts) judge(line string) *messages.Denial {
	refused := refusals().MatchString(line)
	switch {
	case elsewhere().MatchString(line):
		return nil
	case refused && otherwise().MatchString(line) && !kernels().MatchString(line):
		return nil
	case strings.Contains(line, placeholder.Text):
		path := f.Rules.repository(f.Dir)
		return &messages.Denial{Operation: write.String(), Path: path, Rule: ruleProtected, Grant: writable(path)}
	case !refused && taken().MatchString(line):
		return f.taken(line)
	case !refused && !f.Rules.Network && (unreachable().MatchString(line) || unanswered().MatchString(line)):
		return f.unconnected(line)
	case !refused:
		return mentioned(line)
	}
	switch o := operationOf(line, f.Status); o {
	case socket:
		return f.unreached(address(line), false)
	case network:
		if f.Rules.Network {
			return &messages.Denial{Operation: o.String(), Address: address(line), FromText: true}
		}
		return f.unconnected(line)
	case privileged:
		return &messages.Denial{Operation: o.String(), Rule: ruleCalls, FromText: true}
	default:
		return f.refused(o, line)
	}
}

// refused compares the paths of a line with the rules.
func (f Facts) refused(o operation, line string) *messages.Denial {
	all := paths(line, f.Dir)
	unsure := len(all) == 0
	for _, named := range f.moved(all) {
		if rule, grant := f.Rules.unreadable(named.path); rule != "" {
			return &messages.Denial{Operation: read.String(), Path: named.path, Rule: rule, Grant: readable(grant)}
		}
		if o == read || o == run {
			continue
		}
		if rule, grant, deep := f.Rules.unwritable(named.path); rule != "" {
			return &messages.Denial{Operation: write.String(), Path: named.path, Rule: rule, Grant: writable(grant),
				FromText: o == unclear || named.moved || !kernels().MatchString(line) || deep && !readOnly().MatchString(line)}
		}
		// The file system is read-only although writing is allowed: the path is relative to another directory.
		unsure = unsure || named.relative && readOnly().MatchString(line)
	}
	if unsure {
		return &messages.Denial{Operation: o.String(), FromText: true}
	}
	return nil
}

// look reads the command, once for all lines.
func (f *Facts) look() {
	f.text = strings.Join(f.Command, " ")
	f.text = f.text[:min(len(f.text), maxCommand)]
	for _, match := range goes().FindAllStringSubmatch(f.text, -1) {
		dir := filepath.Clean(match[1])
		if rule, _, _ := f.Rules.unwritable(dir); rule != "" && len(f.moves) < maxMoves && !slices.Contains(f.moves, dir) {
			f.moves = append(f.moves, dir)
		}
	}
}

// moved adds the paths that relative ones are if the command has gone to a directory in which it may not write.
func (f Facts) moved(all []named) []named {
	said := all
	for _, dir := range f.moves {
		for _, named := range said {
			if inside, found := strings.CutPrefix(named.path, f.Dir+"/"); named.relative && found {
				named.path, named.moved = filepath.Join(dir, inside), true
				all = append(all, named)
			}
		}
	}
	return all
}

var goes = lazily(`(?:^|[\s;&|(])(?:cd|pushd|-C|--directory[= ])\s*["']?(/[^\s"';&|()<>]*)`)

// taken returns the denial of a protected name that a placeholder or a mount occupies. Other names may exist or be in use.
func (f Facts) taken(line string) *messages.Denial {
	if operationOf(line, f.Status) == read {
		return nil
	}
	for _, named := range paths(line, f.Dir) {
		if rule, grant, deep := f.Rules.unwritable(named.path); rule == ruleProtected && !deep {
			return &messages.Denial{Operation: write.String(), Path: named.path, Rule: rule, Grant: writable(grant), FromText: !busy().MatchString(line)}
		}
	}
	return nil
}

// unconnected returns the denial of the network. If nobody answers on this machine, a program outside of the sandbox may have been
// meant or one that the command has not started, so that is a guess.
func (f Facts) unconnected(line string) *messages.Denial {
	d := &messages.Denial{Operation: network.String(), Address: address(line), Rule: ruleNetwork}
	refused := refusals().MatchString(line)
	path := d.Address
	if match := sockets().FindStringSubmatch(f.text); match != nil && !strings.HasPrefix(path, "/") {
		path = filepath.Join(f.Dir, match[1])
	}
	switch {
	case strings.HasPrefix(path, "/"):
		return f.unreached(path, !refused)
	case !refused && (loopback().MatchString(d.Address) || !unreachable().MatchString(line)):
		d.Rule, d.FromText = ruleApart, true
	}
	d.Grant = &messages.AdditionalPermissions{Network: &messages.NetworkPermissions{Enabled: true}}
	return d
}

// unreached returns the denial of a unix socket. Access to the network would not help.
func (f Facts) unreached(path string, guess bool) *messages.Denial {
	_, ours := below(path, f.Rules.Write)
	if slices.Contains(f.Rules.Sockets, path) || ours && (f.Rules.Network || len(f.Rules.Sockets) > 0) {
		return nil // it is within reach, so nobody listens, or its mode refuses us
	}
	return &messages.Denial{Operation: socket.String(), Address: path, Rule: ruleSockets, FromText: guess}
}

// sockets finds a unix socket that a command names.
var sockets = lazily(`--unix-socket[= ]["']?([^\s"']+)`)

var loopback = lazily(`^(127\.|localhost|\[?::1|0\.0\.0\.0)`)

// mentioned guesses from a line that mentions a sandbox, other than in the name of a file.
func mentioned(line string) *messages.Denial {
	rest := absolute().ReplaceAllString(quoted().ReplaceAllString(line, " "), " ")
	if !mentions().MatchString(rest) {
		return nil
	}
	return &messages.Denial{FromText: true}
}

func writable(path string) *messages.AdditionalPermissions {
	if path == "" {
		return nil
	}
	return &messages.AdditionalPermissions{FileSystem: &messages.FileSystemPermissions{Write: []string{path}}}
}

func readable(path string) *messages.AdditionalPermissions {
	if path == "" {
		return nil
	}
	return &messages.AdditionalPermissions{FileSystem: &messages.FileSystemPermissions{Read: []string{path}}}
}
