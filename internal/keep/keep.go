// Package keep is how the programs of execbus keep all output of commands: what their settings --keep-output, --output-quota and --output-total
// mean, where the files are, and what happens where there is no place for them.
//
//	setting := keep.Setting{ByDefault: true, PerProcess: quota}
//	rt, err := keep.Start(setting, warn, func(dir string) (*execbus.Runtime, error) {
//		return execbus.Start(execbus.Options{Spool: execbus.SpoolOptions{Dir: dir, PerProcess: setting.PerProcess, Total: setting.Total}})
//	})
//
// # What you must not assume
//
// That anything is kept if nobody has asked for it: there may be no place.
package keep

import (
	"errors"
	"fmt"
	"strings"

	"github.com/execbus/execbus/internal/own"
	"github.com/execbus/execbus/internal/size"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/spool"
)

// Setting says whether a program keeps all output, and how much. The zero value keeps none.
type Setting struct {
	// Said is what a person has said. Nil means nothing: then ByDefault counts.
	Said      *bool
	ByDefault bool
	// PerProcess and Total are those of spool.Options, in bytes. Zero means their defaults.
	PerProcess, Total int64
}

// On reports whether all output is to be kept.
func (s Setting) On() bool {
	if s.Said != nil {
		return *s.Said
	}
	return s.ByDefault
}

// Quota reads a value of --output-quota or --output-total.
func Quota(text string) (int64, error) {
	n, err := size.Parse(text)
	if err != nil || n < spool.LeastPerProcess {
		return 0, fmt.Errorf("%q is no size for kept output; use %dK or more, such as 500M", text, spool.LeastPerProcess>>10)
	}
	return n, nil
}

// Start calls start, which starts something that keeps all output in a directory; with an empty one it keeps what memory has. If nobody has
// asked for it and the directory cannot be used, start is called again without one, and warn is told why.
func Start[T any](s Setting, warn func(text string), start func(dir string) (T, error)) (T, error) {
	if !s.On() {
		return start("")
	}
	dir := own.Output()
	if dir == "" && s.Said != nil {
		var none T
		return none, errors.New("all output cannot be kept: you have no home directory; set HOME or XDG_STATE_HOME")
	}
	started, err := start(dir)
	if known, is := errors.AsType[*messages.Error](err); is && strings.HasPrefix(known.Subject, "Spool.") && s.Said == nil {
		warn("only the newest output of commands is kept, because there is no place for all of it: " + err.Error())
		return start("")
	}
	return started, err
}
