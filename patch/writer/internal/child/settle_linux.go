package child

import (
	"bytes"
	"errors"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// direction is where settle brings the changes.
type direction int

const (
	undecided direction = iota // forth if they all are in place, and else back
	undo
	finish
)

// found is how far a change has come, as what stands at its two names shows. Its file has either the old content or the new one,
// or its bytes are some of either, if it is written in place.
type found int

const (
	untouched found = iota // the old file stands at the name, or nothing where nothing was
	either                 // the old file stands there, and old and new contents are equal
	torn                   // the old file has bytes of both
	rewritten              // the old file has the new content
	created                // the new file stands where nothing was
	exchanged              // the new file stands at the name, and the old one at the temporary name
	taken                  // nothing stands at the name, and the old file at the temporary one
	cleaned                // the same as the last two, but the old file is gone: all changes had come to their places
	foreign                // something that is not ours
)

// settle brings all changes to one side and removes the temporary files.
func (t *transaction) settle(to direction) []Result {
	states := make([]found, len(t.changes))
	report := make([]Result, len(t.changes))
	begun, known, over := true, true, false // all have left their old side; what is there is known; the last phase had begun
	for i, c := range t.changes {
		report[i] = Result{Path: c.Path, State: Left}
		var err error
		if states[i], err = t.find(i, c); err != nil {
			states[i], report[i].Why = foreign, cause(err)
		}
		switch states[i] {
		case untouched, torn:
			begun = false
		case foreign:
			_, here := t.temporary(c)
			known = known && here
		case cleaned:
			over = true
		}
	}
	if to == undecided {
		to = undo
		if begun && (known || over) {
			to = finish
		}
	}
	for i := range states {
		if to == undo && states[i] == cleaned { // we take nothing away before all is in place
			states[i] = foreign
		}
	}
	for i := len(t.changes) - 1; i >= 0; i-- { // a torn file comes before those that show that there is something to undo
		if states[i] == torn {
			t.resolve(i, torn, undo, &report[i])
		}
	}
	for i := len(t.changes) - 1; i >= 0; i-- {
		if states[i] != torn {
			t.resolve(i, states[i], to, &report[i])
		}
		if to == undo { // before the changes before it, which may have removed a file that stood there
			t.removeDirectories(t.changes[i])
		}
	}
	return report
}

// resolve brings one change to its end.
func (t *transaction) resolve(i int, state found, to direction, result *Result) {
	c := t.changes[i]
	if state == foreign {
		if result.Why == "" {
			result.Why = "it is not as the patch has left it: somebody else has changed it"
		}
		_ = t.in(c, false, func(dir int, _ string) error { return t.discard(dir, i, c) })
		if at, _ := t.temporary(c); at != "" {
			result.Why += "; another version of it is at " + at
		}
		return
	}
	err := t.in(c, false, func(dir int, name string) error {
		if to == finish {
			return t.finish(dir, i, c, state)
		}
		return t.undo(dir, name, i, c, state)
	})
	if state == untouched && (err == unix.ENOENT || t.late(c) && errors.Is(err, unix.ENOTDIR)) { // its directory was never made
		err = nil
	}
	switch {
	case err != nil:
		result.State, result.Why, result.Torn = Left, cause(err), state == torn
	case to == finish:
		result.State = IsNew
	default:
		result.State = IsOld
	}
}

// temporary says where something stands at the temporary name, if there is something, and whether it is the old file.
func (t *transaction) temporary(c *Change) (at string, isOld bool) {
	_ = t.in(c, false, func(dir int, _ string) error {
		if s, err := look(dir, c.Temp); err == nil {
			at, isOld = path.Join(path.Dir(c.Path), c.Temp), c.Exists && s.ID == c.Stamp.ID
		}
		return nil
	})
	return at, isOld
}

// look says what stands at a name, without following it.
func look(dir int, name string) (Stamp, error) {
	var s unix.Stat_t
	err := unix.Fstatat(dir, name, &s, unix.AT_SYMLINK_NOFOLLOW)
	return Stamp{ID: ID{s.Dev, s.Ino}, Mode: s.Mode, Size: s.Size, Modified: s.Mtim.Nano()}, err
}

// find finds out how far a change has come.
func (t *transaction) find(i int, c *Change) (state found, err error) {
	state = untouched
	err = t.in(c, false, func(dir int, name string) error {
		now, err := look(dir, name)
		if err != nil && err != unix.ENOENT {
			return err
		}
		if c.Remove && err == nil && now.Mode&unix.S_IFMT == unix.S_IFDIR && slices.ContainsFunc(t.changes, func(below *Change) bool {
			return strings.HasPrefix(below.Path, c.Path+"/")
		}) { // the directory that was made in its place
			err = unix.ENOENT
		}
		temp, missing := look(dir, c.Temp)
		isTemp := missing == nil && c.isOld(dir, temp)
		switch {
		case err == nil && c.isOld(dir, now):
			state = c.compare(dir, name)
			if (state == torn || state == rewritten) && (t.made == nil || missing == nil && temp.ID == t.made[i].ID) {
				state = foreign // we have not begun to write there
			}
		case err == nil && !c.Remove && t.isNew(i, dir, name):
			switch {
			case !c.Exists:
				state = created
			case isTemp:
				state = exchanged
			case missing == unix.ENOENT:
				state = cleaned
			default:
				state = foreign
			}
		case err == unix.ENOENT && c.Remove && isTemp:
			state = taken
		case err == unix.ENOENT && c.Remove && missing == unix.ENOENT:
			state = cleaned
		case err == unix.ENOENT && !c.Exists:
			state = untouched
		default:
			state = foreign
		}
		return nil
	})
	if !c.Exists && (err == unix.ENOENT || t.late(c) && errors.Is(err, unix.ENOTDIR)) {
		err = nil
	}
	return state, err
}

// isOld reports whether what was found in a directory is the old file. It learns the inode if that is another one since.
func (c *Change) isOld(dir int, found Stamp) bool {
	found.Dir = c.Stamp.Dir
	if !c.Exists || found.ID != c.Stamp.ID && !copiedUp(dir, found, c.Stamp) {
		return false
	}
	c.Stamp.ID = found.ID
	return true
}

// compare says what the old file at its own name contains.
func (c *Change) compare(dir int, name string) found {
	if c.Link != "" {
		return untouched
	}
	data, err := regularAt(dir, name, max(len(c.Old), len(c.New)))
	switch {
	case err != nil:
		return foreign
	case c.Remove && bytes.Equal(data, c.Old):
		return untouched
	case c.Remove:
		return foreign
	case bytes.Equal(data, c.Old) && bytes.Equal(data, c.New):
		return either
	case bytes.Equal(data, c.Old):
		return untouched
	case bytes.Equal(data, c.New):
		return rewritten
	case len(data) < min(len(c.Old), len(c.New)):
		return foreign
	}
	for i, b := range data {
		if !(i < len(c.Old) && c.Old[i] == b || i < len(c.New) && c.New[i] == b) {
			return foreign
		}
	}
	return torn
}

// isNew reports whether the file at a name is the one that was made for a change. Before it is known which were made, none is in place.
func (t *transaction) isNew(i, dir int, name string) bool {
	c := t.changes[i]
	if now, err := look(dir, name); err != nil || t.made == nil || now.ID != t.made[i].ID && !t.late(c) {
		return false
	}
	data, err := regularAt(dir, name, len(c.New))
	return err == nil && bytes.Equal(data, c.New)
}

// regularAt reads a regular file, but hardly more than it is expected to have.
func regularAt(dir int, name string, size int) ([]byte, error) {
	only, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(only)
	if s, err := stamp(only, Dir{}); err != nil || s.Mode&unix.S_IFMT != unix.S_IFREG || !stores(only) {
		return nil, errors.Join(unix.EINVAL, err)
	}
	file, err := reopen(only, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(file)
	return contents(file, int64(size))
}

// finish removes what a change that is in its place has left at the temporary name.
func (t *transaction) finish(dir, i int, c *Change, state found) error {
	if state == exchanged || state == taken {
		return unlink(dir, c.Temp) // the old file
	}
	return t.discard(dir, i, c)
}

// undo takes a change back.
func (t *transaction) undo(dir int, name string, i int, c *Change, state found) error {
	switch state {
	case torn, rewritten, either:
		if err := t.restore(dir, name, c, state); err != nil {
			return err
		}
	case taken:
		if err := move(dir, c.Temp, name); err != nil {
			return err
		}
	case exchanged:
		if err := exchange(dir, name, c.Temp); err != nil {
			return err
		}
		if !t.isNew(i, dir, c.Temp) { // somebody has come between
			return errors.Join(errors.New("somebody else changes it"), exchange(dir, name, c.Temp))
		}
	case created:
		if err := move(dir, name, c.Temp); err != nil {
			return err
		}
		if !t.isNew(i, dir, c.Temp) {
			return errors.Join(errors.New("somebody else changes it"), move(dir, c.Temp, name))
		}
	}
	return t.discard(dir, i, c)
}

// restore writes back the old content of a file that was written in place.
func (t *transaction) restore(dir int, name string, c *Change, state found) error {
	only, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(only)
	s, err := stamp(only, Dir{})
	if err != nil || s.ID != c.Stamp.ID || c.compare(dir, name) != state {
		return errors.Join(errors.New("somebody else changes it"), err)
	}
	if state == either && s.Mode == c.Stamp.Mode {
		return nil
	}
	file, err := reopen(only, unix.O_RDWR)
	if err != nil {
		return err
	}
	defer unix.Close(file)
	return overwrite(file, c.Old, c.Stamp.Mode)
}

// discard removes the new file from the temporary name. Where it is not known which file was made, it is one that is ours, with a
// beginning of the new content. The old file is never removed, unless that is another name of what stands in its place.
func (t *transaction) discard(dir, i int, c *Change) error {
	temp, err := look(dir, c.Temp)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	left := errors.New("it is as it was, but beside it is " + c.Temp + ", which is not ours")
	if at, err := look(dir, path.Base(c.Path)); err == nil && at.ID == temp.ID {
		return unlink(dir, c.Temp)
	}
	if c.Exists && temp.ID == c.Stamp.ID || c.Remove {
		return left
	}
	if t.made != nil && !t.late(c) {
		if temp.ID != t.made[i].ID {
			return left
		}
		return unlink(dir, c.Temp)
	}
	data, err := regularAt(dir, c.Temp, len(c.New))
	if err != nil || !bytes.HasPrefix(c.New, data) {
		return left
	}
	return unlink(dir, c.Temp)
}

// removeDirectories removes those that were made for a change, as far as they are empty.
func (t *transaction) removeDirectories(c *Change) {
	for at := path.Dir(c.Path); len(at) > len(c.Stamp.Dir.Path); at = path.Dir(at) {
		dir, missing, err := t.walk(path.Dir(at), c.Stamp.Dir)
		if err != nil {
			return
		}
		if len(missing) == 0 {
			err = rmdir(dir, path.Base(at))
		}
		_ = unix.Close(dir)
		if err != nil && err != unix.ENOENT {
			return
		}
	}
}
