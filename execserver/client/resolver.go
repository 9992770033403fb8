package client

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// resolver asks the server about its machine. A server that is not part of execbus reports only its shell and its files.
type resolver struct {
	link *link
	// known is the part that does not change during a session. mu is held only to read or set it.
	mu    sync.Mutex
	known *wire.MachineResult
}

// Resolver implements ptyio.Spawner.
func (s *spawner) Resolver() ptyio.Resolver { return s.resolver }

// about asks one question.
func about[T any](ctx context.Context, l *link, method string, params any) (T, error) {
	var answer T
	text, err := l.ask(ctx, &call{again: true}, method, params)
	if err != nil {
		return answer, refusal("look at the server's machine", "", err)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return answer, failed("look at the server's machine", "the server's answer is malformed")
	}
	return answer, nil
}

// machine returns the part that is asked for once.
func (r *resolver) machine(ctx context.Context) (*wire.MachineResult, error) {
	r.mu.Lock()
	known := r.known
	r.mu.Unlock()
	if known != nil {
		return known, nil
	}
	fresh, err := r.ask(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = fresh
	return fresh, nil
}

func (r *resolver) ask(ctx context.Context) (*wire.MachineResult, error) {
	if r.link.flow() {
		m, err := about[wire.MachineResult](ctx, r.link, wire.EnvironmentMachine, wire.Empty{})
		return &m, err
	}
	info, err := about[wire.InfoResult](ctx, r.link, wire.EnvironmentInfo, wire.Empty{})
	return &wire.MachineResult{UserShell: info.Shell.Path, Environment: []string{"PATH=" + usualPath}, TrustedDirs: strings.Split(usualPath, ":")}, err
}

// usualPath is the search path if the server does not report its environment.
const usualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func (r *resolver) UserShell(ctx context.Context) (string, error) {
	m, err := r.machine(ctx)
	if err != nil {
		return "", err
	}
	return m.UserShell, nil
}

func (r *resolver) Environment(ctx context.Context) ([]string, error) {
	m, err := r.machine(ctx)
	if err != nil {
		return nil, err
	}
	return append([]string(nil), m.Environment...), nil
}

// patchProgram stands for the server's own program: a launch with this name and this program starts that, under its own sandbox as any other.
const patchProgram = "execbus-patch"

// PatchProgram implements ptyio.Patcher.
func (r *resolver) PatchProgram(context.Context) (ptyio.Launch, error) {
	if !r.link.has(wire.ExtensionPatches) {
		return ptyio.Launch{}, &messages.Error{Code: messages.ErrUnsupported, Op: "apply patch", Subject: "files",
			Detail: "the server has no program that reads and writes them; change the files by commands, or use a server of this version"}
	}
	return ptyio.Launch{Argv: []string{patchProgram}, Argv0: patchProgram, Dir: "/"}, nil
}

// Machine implements ptyio.Patcher.
func (r *resolver) Machine(ctx context.Context) (string, error) {
	m, err := r.machine(ctx)
	switch {
	case err != nil:
		return "", err
	case m.Name == "":
		return "", &messages.Error{Code: messages.ErrUnsupported, Op: "apply patch", Subject: "machine", Detail: "the server does not name its machine; use a server of this version"}
	}
	return m.Name, nil
}

func (r *resolver) TrustedDirs(ctx context.Context) ([]string, error) {
	m, err := r.machine(ctx)
	if err != nil {
		return nil, err
	}
	return append([]string(nil), m.TrustedDirs...), nil
}

func (r *resolver) IsFile(ctx context.Context, file string) (bool, error) {
	found, err := r.look(ctx, file)
	return found.IsFile, err
}

func (r *resolver) IsDir(ctx context.Context, dir string) (bool, error) {
	found, err := r.look(ctx, dir)
	return found.IsDirectory, err
}

// Leads implements ptyio.Follower. Of a server that cannot say where paths lead, nothing is known of where they do.
func (r *resolver) Leads(ctx context.Context, file string) (string, error) {
	if !r.link.flow() {
		return "", nil
	}
	found, err := about[wire.LeadsResult](ctx, r.link, wire.EnvironmentLeads, wire.PathParams{Path: file})
	if errors.Is(err, messages.ErrUnsupported) {
		return "", nil
	}
	return found.Path, err
}

// look describes the file at a path. It follows links.
func (r *resolver) look(ctx context.Context, file string) (wire.PathResult, error) {
	if r.link.flow() {
		return about[wire.PathResult](ctx, r.link, wire.EnvironmentPath, wire.PathParams{Path: file})
	}
	found, err := about[wire.PathResult](ctx, r.link, getMetadata, wire.PathParams{Path: wire.FileURI(file)})
	if errors.Is(err, fs.ErrNotExist) {
		return wire.PathResult{}, nil
	}
	return found, err
}

// getMetadata is about a file.
const getMetadata = "fs/getMetadata"

// Program asks a server of execbus. With another server the first file with the name counts, because that server does not report
// permissions.
func (r *resolver) Program(ctx context.Context, name, dir, searched string) (string, error) {
	if name == "" {
		return "", &messages.Error{Code: messages.ErrInvalidRequest, Op: "spawn", Subject: "argv", Detail: "there is no program; name one"}
	}
	if r.link.flow() {
		found, err := about[wire.ProgramResult](ctx, r.link, wire.EnvironmentProgram, wire.ProgramParams{Name: name, Dir: dir, Path: searched})
		if err == nil && found.Error != nil {
			err = found.Error
		}
		return found.Path, err
	}
	if strings.Contains(name, "/") {
		if path.IsAbs(name) {
			return name, nil
		}
		return path.Join(dir, name), nil
	}
	for place := range strings.SplitSeq(searched, ":") {
		file := path.Join(dir, place, name)
		if path.IsAbs(place) {
			file = path.Join(place, name)
		}
		if there, err := r.IsFile(ctx, file); err != nil {
			return "", err
		} else if there {
			return file, nil
		}
	}
	return "", &messages.Error{Code: messages.ErrNoSuchProgram, Op: "spawn", Subject: name,
		Detail: "the server's machine has no such program in its search path; check the name"}
}
