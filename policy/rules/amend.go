package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/rules/internal/bounded"
	"golang.org/x/sys/unix"
)

// lockWait is how long an amendment waits for other processes that write the same file.
const lockWait = 5 * time.Second

// Append adds one line to a rule file: an allow rule for commands that begin with the prefix. It creates the file and its
// directory if they do not exist, and does not add a line that is already there. A file that has an error, or would have
// one afterwards, is left as it is.
//
// Several processes may append at once. Append takes as long as the disk does, or 5 s if another process holds the file's
// lock.
func Append(path string, prefix []string) error {
	if err := CheckPrefix(prefix); err != nil {
		return err
	}
	allows := func(m Match) bool { return m.Decision == Allow && slices.Equal(m.Prefix, prefix) }
	return appendLine(path, Line(prefix), func(with *Set) bool { return slices.ContainsFunc(with.Match(prefix), allows) })
}

// AppendHost adds one line to a rule file, as Append does: a rule about hosts, without its Origin.
func AppendHost(path string, rule messages.HostRule) error {
	if err := CheckHost(rule); err != nil {
		return err
	}
	return appendLine(path, HostLine(rule), func(with *Set) bool {
		return slices.ContainsFunc(with.Network(), func(other messages.HostRule) bool {
			other.Origin = rule.Origin
			return other == rule
		})
	})
}

func appendLine(path, line string, holds func(*Set) bool) error {
	if err := appendRule(path, line, holds); err != nil {
		return &messages.Error{Code: messages.ErrRuntimeFailure, Op: "amend", Subject: path, Detail: detailOf(err)}
	}
	return nil
}

// Line is the line of a rule file that allows commands which begin with a prefix. JSON's strings are valid in Starlark too.
func Line(prefix []string) string {
	words := make([]string, len(prefix))
	for i, word := range prefix {
		words[i] = quoted(word)
	}
	return fmt.Sprintf(`prefix_rule(pattern=[%s], decision="allow")`, strings.Join(words, ", "))
}

// HostLine is the line of a rule file with a rule about hosts.
func HostLine(rule messages.HostRule) string {
	protocol := string(rule.Protocol)
	if protocol == "" {
		protocol = "any"
	}
	if rule.Protocol == messages.HostUDP {
		protocol = "socks5_udp"
	}
	line := fmt.Sprintf(`network_rule(host=%s, protocol=%q, decision=%q`, quoted(rule.Host), protocol, rule.Decision)
	if rule.Justification != "" {
		line += ", justification=" + quoted(rule.Justification)
	}
	if rule.HiddenName {
		line += ", hidden_name=True"
	}
	return line + ")"
}

func quoted(text string) string {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string into memory
	return strings.TrimSuffix(line.String(), "\n")
}

func appendRule(path, line string, holds func(*Set) bool) error {
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	file, err := openLocked(path, lockWait)
	if err != nil {
		return err
	}
	defer file.Close() // closing the file also unlocks it
	if err := checkRegular(file); err != nil {
		return err
	}
	old, err := io.ReadAll(io.LimitReader(file, bounded.MaxSource+1))
	if err != nil {
		return err
	}
	for known := range bytes.Lines(old) {
		if string(bytes.TrimSuffix(known, []byte("\n"))) == line {
			return nil
		}
	}
	added := line + "\n"
	if len(old) > 0 && old[len(old)-1] != '\n' {
		added = "\n" + added
	}
	if err := checkAppended(old, added, holds); err != nil {
		return err
	}
	if _, err := file.WriteString(added); err != nil {
		return errors.Join(err, file.Truncate(int64(len(old)))) // half a line would make the file an error
	}
	return nil
}

// checkAppended finds out whether the file can be read after the change, and whether it then has the new rule. If the
// file became too long, or if its last line continued on the new one, all its rules would be lost.
func checkAppended(old []byte, added string, holds func(*Set) bool) error {
	if _, err := Parse("it", old); err != nil {
		return fmt.Errorf("the file cannot be read as it is: %s", detailAt(err))
	}
	rules, err := Parse("it", append(slices.Clip(old), added...))
	if err != nil {
		return fmt.Errorf("with the new line the file could not be read: %s", detailAt(err))
	}
	if !holds(rules) {
		return errors.New("in this file the new line would not make the rule")
	}
	return nil
}

func detailAt(err error) string {
	e, ok := errors.AsType[*messages.Error](err)
	if !ok {
		return err.Error()
	}
	_, at, _ := strings.Cut(e.Subject, ":")
	return strings.TrimPrefix(at+": "+e.Detail, ": ")
}

// openLocked opens a file and locks it. A process that waited for the lock may find that the file has been replaced.
func openLocked(path string, wait time.Duration) (*os.File, error) {
	give := time.NewTimer(wait)
	defer give.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && isAt(file, path) {
			return file, nil
		}
		file.Close()
		if err != nil && err != unix.EWOULDBLOCK && err != unix.EINTR {
			return nil, fmt.Errorf("lock: %w", err)
		}
		select {
		case <-again.C:
		case <-give.C:
			return nil, fmt.Errorf("another process has held the file's lock for %v", wait)
		}
	}
}

func isAt(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(opened, there)
}

// detailOf leaves out the path, which the error already names.
func detailOf(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Op + ": " + e.Err.Error()
	}
	return err.Error()
}
