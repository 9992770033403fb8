// Package own says where execbus keeps files of its own, for the user of this process. They decide what later commands may do, so no
// confined command may change them.
//
//	dirs, files := own.Files()   // settings and state: the directories, and files elsewhere
//	dir := own.Patches()         // the journals of patches; empty if the user has no home
//	dir = own.Output()           // the same for the output of processes
//
// # What you must not assume
//
// That any of them exists.
package own

import (
	"os"
	"path/filepath"
	"slices"
)

// Where the directories of one kind are: a variable, and the path below what it says.
var (
	settings = map[string]string{"XDG_CONFIG_HOME": "execbus", "HOME": ".config/execbus"}
	state    = map[string]string{"XDG_STATE_HOME": "execbus", "HOME": ".local/state/execbus"}
)

func below(all map[string]string) (dirs []string) {
	for variable, below := range all {
		if dir := os.Getenv(variable); filepath.IsAbs(dir) {
			dirs = append(dirs, filepath.Join(dir, below))
		}
	}
	return dirs
}

// Files returns the directories with settings and state, and the settings that the user has put elsewhere.
func Files() (dirs, files []string) {
	dirs = append(below(settings), below(state)...)
	if dir, err := os.UserConfigDir(); err == nil { // on macOS it is another one
		dirs = append(dirs, filepath.Join(dir, "execbus"))
	}
	slices.Sort(dirs)
	if file, err := filepath.Abs(os.Getenv("EXECBUS_CONFIG")); err == nil && os.Getenv("EXECBUS_CONFIG") != "" {
		files = append(files, file)
	}
	return slices.Compact(dirs), files
}

// Patches is the directory for the journals of patches.
func Patches() string { return stateOf("patches") }

// Output is the directory for files with the output of processes.
func Output() string { return stateOf("output") }

// Kept is the directory for output that a person has asked to keep.
func Kept() string { return stateOf("kept") }

func stateOf(name string) string {
	for _, variable := range []string{"XDG_STATE_HOME", "HOME"} {
		if dir := os.Getenv(variable); filepath.IsAbs(dir) {
			return filepath.Join(dir, state[variable], name)
		}
	}
	return ""
}
