package house

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// anyRoom lets a room import every other.
const anyRoom = "any"

// root is the room of package execbus.
const root = "."

// rooms says which rooms' packages the non-test files of a room may import, besides those of the room itself. A package
// belongs to the room with the longest name that its path begins with. The root has only its own package.
var rooms = map[string][]string{
	"messages": {},
	"bus":      {"messages"},
	"ptyio":    {"messages", "internal"},
	"sandbox":  {"messages", "ptyio", "internal"},

	"policy":         {"messages", "policy/command", "policy/hosts", "policy/rules"},
	"policy/command": {},
	"policy/hosts":   {"messages"},
	// The bounded Starlark below it is its own business.
	"policy/rules": {"messages", "policy/command", "policy/hosts"},

	// The program that a confined child runs.
	"patch/writer": {"patch", "messages", "ptyio", "internal"},
	"patch":        {"messages", "policy/command"},

	// What the programs of two modules have in common.
	"internal/keep": {"messages", "spool", "internal"},

	"network": {"messages", "policy/hosts"},
	"spool":   {"messages"},
	"audit":   {"messages"},
	"view":    {"messages"},
	"record":  {"messages", "bus"},

	// Each actor has a room of its own, which knows the others by their messages.
	"actors/internal/system":   {"messages", "internal"},
	"actors/internal/pattern":  {"messages"},
	"actors/internal/output":   {"messages", "bus", "ptyio"},
	"actors/internal/shared":   {"messages", "actors/internal/output", "bus", "ptyio", "policy", "policy/command", "policy/hosts", "policy/rules", "internal"},
	"actors/internal/protocol": {"messages", "bus", "ptyio", "policy", "policy/hosts", "policy/rules", "actors/internal/output", "actors/internal/shared"},
	"actors/internal/approval": {"messages", "bus", "policy", "policy/hosts", "internal", "actors/internal/protocol", "actors/internal/shared", "actors/internal/system"},
	"actors/internal/rulebook": {"policy/rules", "actors/internal/protocol", "actors/internal/system"},
	"actors/internal/wait":     {"messages", "actors/internal/protocol", "actors/internal/system"},
	"actors/internal/patching": {"messages", "ptyio", "policy", "internal", "actors/internal/protocol", "actors/internal/shared", "actors/internal/system"},
	"actors/internal/process": {"messages", "bus", "ptyio", "sandbox", "policy", "policy/command",
		"actors/internal/pattern", "actors/internal/protocol", "actors/internal/output", "actors/internal/shared", "actors/internal/system", "internal"},
	"actors/internal/session": {"messages", "bus", "ptyio", "policy", "policy/hosts", "policy/rules", "internal",
		"actors/internal/process", "actors/internal/approval", "actors/internal/wait", "actors/internal/patching",
		"actors/internal/protocol", "actors/internal/output", "actors/internal/shared", "actors/internal/system"},
	"actors": {"messages", "ptyio", "actors/internal/output", "actors/internal/session", "actors/internal/patching", "actors/internal/rulebook",
		"actors/internal/protocol", "actors/internal/shared", "actors/internal/system"},
	root:           {"messages", "bus", "ptyio", "sandbox", "policy", "policy/hosts", "policy/rules", "network", "patch", "patch/writer", "spool", "audit", "view", "record", "actors", "internal"},
	"internal":     {},
	"tools":        {root, "messages"},
	"mcp":          {root, "messages", "bus", "tools", "internal"},
	"window":       {root, "messages", "view", "internal"},
	"execserver":   {root, "messages", "bus", "ptyio", "patch/writer", "spool", "tools", "internal"},
	"cmd/internal": {"messages"},
	"cmd/demo":     {root, "messages", "tools", "view", "window", "cmd/internal"},
	"examples":     {root, "messages", "tools"},
	"fleet":        {root, "messages", "bus"},
	"fleet/bench":  {root, "messages", "fleet", "tests"},
	"fleet/cmd":    {root, "messages", "fleet", "internal/keep"},
	"cmd/execbus":  {anyRoom},
	"tests/probe":  {"messages"},
	"tests":        {anyRoom},
}

// roomOf finds the room of a package's directory.
func roomOf(dir string) (room string, found bool) {
	if dir == root {
		return root, true
	}
	for name := range rooms {
		if name != root && within(dir, name) && len(name) > len(room) {
			room = name
		}
	}
	return room, room != ""
}

// checkRooms compares imports with the table.
func checkRooms(repository fs.FS) ([]string, error) {
	files, err := goFiles(repository)
	if err != nil {
		return nil, err
	}
	var complaints []string
	homeless := map[string]bool{}
	for _, file := range files {
		room, found := roomOf(file.dir())
		if !found {
			homeless[file.dir()] = true
			continue
		}
		if file.isTest() {
			continue
		}
		for _, imported := range file.imports() {
			if why := forbidden(room, imported); why != "" {
				complaints = append(complaints, fmt.Sprintf("%s imports %s: %s", file.name, imported, why))
			}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(homeless)) {
		complaints = append(complaints, fmt.Sprintf("%s/ belongs to no room: move it, or give it a line in the table", dir))
	}
	return complaints, nil
}

// forbidden says why a room may not import a package; empty if it may.
func forbidden(room, imported string) string {
	if !within(imported, module) {
		return ""
	}
	dir := strings.TrimPrefix(strings.TrimPrefix(imported, module), "/")
	if dir == "" {
		dir = root
	}
	target, found := roomOf(dir)
	switch allowed := rooms[room]; {
	case !found:
		return "that is no room of ours"
	case target == room:
		return ""
	case strings.HasSuffix(path.Base(dir), "test") && !within(room, "tests"):
		return "it is meant for tests"
	case slices.Contains(allowed, anyRoom) || slices.Contains(allowed, target):
		return ""
	default:
		return fmt.Sprintf("room %q may import only %q", room, allowed)
	}
}

func TestRoomsImportOnlyWhatTheyMay(t *testing.T) { passes(t, checkRooms) }

// Each package below the actors has a row of its own: else it would be of the room that may import all of them.
func TestEachActorHasARow(t *testing.T) {
	files, err := goFiles(os.DirFS(repositoryRoot(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if room, _ := roomOf(file.dir()); room == "actors" && file.dir() != room {
			t.Errorf("%s belongs to no actor's room: give its package a row in the table", file.name)
		}
	}
}

func TestRoomTableNamesRooms(t *testing.T) {
	for room, allowed := range rooms {
		for _, name := range allowed {
			if _, known := rooms[name]; !known && name != anyRoom {
				t.Errorf("room %q may import %q, which is no room", room, name)
			}
		}
	}
}

func TestWrongImportsAreFound(t *testing.T) {
	source := func(imports ...string) string {
		return "package p\nimport (\n\"os\"\n\"" + strings.Join(imports, "\"\n\"") + "\"\n)\n"
	}
	finds(t, checkRooms, map[string]string{
		"bus/good.go":                     source(module+"/messages", module+"/bus/readertest", "github.com/execbus/execbusier"),
		"bus/bad.go":                      source(module + "/ptyio"),
		"bus/bad_test.go":                 source(module + "/actors"),
		"bus/readertest/up.go":            source(module),
		"messages/bad_windows.go":         "//go:build windows\n\n" + source(module+"/bus"),
		"sandbox/internal/x/x.go":         source(module+"/sandbox/internal/y", module+"/actors"),
		"cmd/demo/bad.go":                 source(module, module+"/messages", module+"/bus"),
		"cmd/execbus/good.go":             source(module, module+"/policy", module+"/tests/soak"),
		"tests/probe/bad.go":              source(module+"/messages", module+"/bus"),
		"tests/soak/good.go":              source(module, module+"/tests/probe", module+"/bus/readertest"),
		"actors/good.go":                  source(module + "/actors/internal/system"),
		"actors/internal/system/good.go":  source(module + "/messages"),
		"actors/internal/system/bad.go":   source(module+"/bus", module+"/actors"),
		"bus/system.go":                   source(module + "/actors/internal/system"),
		"actors/bad.go":                   source(module+"/bus/readertest", module+"/util"),
		"actors/internal/process/bad.go":  source(module + "/actors/internal/session"),
		"actors/internal/approval/bad.go": source(module + "/actors/internal/output"),
		"actors/internal/protocol/bad.go": source(module + "/actors/internal/system"),
		"policy/rules/bad.go":             source(module + "/policy"),
		"policy/command/bad.go":           source(module + "/messages"),
		"util/helpers.go":                 "package util",
		"cmd/other/main_test.go":          "package main",
	},
		"bus/bad.go imports "+module+"/ptyio: room \"bus\" may import only [\"messages\"]",
		"bus/readertest/up.go imports "+module+":",
		"messages/bad_windows.go imports",
		"sandbox/internal/x/x.go imports "+module+"/actors",
		"cmd/demo/bad.go imports "+module+"/bus:",
		"tests/probe/bad.go imports "+module+"/bus:",
		"policy/rules/bad.go imports "+module+"/policy:",
		"policy/command/bad.go imports "+module+"/messages:",
		"actors/bad.go imports "+module+"/bus/readertest: it is meant for tests",
		"actors/bad.go imports "+module+"/util: that is no room",
		"actors/internal/system/bad.go imports "+module+"/bus: room \"actors/internal/system\" may import only",
		"actors/internal/system/bad.go imports "+module+"/actors:",
		"bus/system.go imports "+module+"/actors/internal/system:",
		"actors/internal/process/bad.go imports "+module+"/actors/internal/session:",
		"actors/internal/approval/bad.go imports "+module+"/actors/internal/output:",
		"actors/internal/protocol/bad.go imports "+module+"/actors/internal/system:",
		"util/ belongs to no room",
		"cmd/other/ belongs to no room",
	)
}
