package execserver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// fallbackShell is the shell if the machine does not name one.
const fallbackShell = "/bin/sh"

// info describes the machine for clients of any kind.
func info(ctx context.Context, c *connection, _ wire.Empty) (any, error) { return c.server.info(ctx) }

func (s *Server) info(ctx context.Context) (*wire.InfoResult, error) {
	shell, err := s.userShell(ctx)
	if err != nil {
		return nil, err
	}
	result := &wire.InfoResult{Shell: wire.Shell{Name: filepath.Base(shell), Path: shell}, PlatformOS: runtime.GOOS, TempDir: wire.FileURI(os.TempDir())}
	if dir, err := os.Getwd(); err == nil {
		result.Cwd = wire.FileURI(dir)
	}
	if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
		result.UserHomeDir = wire.FileURI(home)
	}
	return result, nil
}

func (s *Server) userShell(ctx context.Context) (string, error) {
	shell, err := s.spawner.Resolver().UserShell(ctx)
	return cmp.Or(shell, fallbackShell), err
}

// environment is the environment of the machine. A server that the system has started may have none that names the shell, and programs
// on a terminal expect one.
func (s *Server) environment(ctx context.Context) ([]string, error) {
	env, err := s.spawner.Resolver().Environment(ctx)
	if err != nil || slices.ContainsFunc(env, func(entry string) bool { return strings.HasPrefix(entry, "SHELL=") }) {
		return env, err
	}
	shell, err := s.userShell(ctx)
	return append(slices.Clone(env), "SHELL="+shell), err
}

// status says that the server answers.
func status(*connection, wire.Empty) (any, error) { return wire.StatusResult{Status: wire.Ready}, nil }

// machine answers with the parts of a ptyio.Resolver that do not change.
func machine(ctx context.Context, c *connection, _ wire.Empty) (any, error) {
	resolver := c.server.spawner.Resolver()
	shell, err := resolver.UserShell(ctx)
	if err != nil {
		return nil, err
	}
	environment, err := c.server.environment(ctx)
	if err != nil {
		return nil, err
	}
	trusted, err := resolver.TrustedDirs(ctx)
	return wire.MachineResult{UserShell: shell, Environment: append([]string{}, environment...), TrustedDirs: append([]string{}, trusted...), Name: machineName()}, err
}

// machineName tells this machine from others, as far as its host name and its id do.
var machineName = sync.OnceValue(func() string {
	host, _ := os.Hostname()
	id, _ := os.ReadFile("/etc/machine-id")
	if host+string(id) == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(host + "\x00" + strings.TrimSpace(string(id))))
	return hex.EncodeToString(sum[:16])
})

// program finds a program.
func program(ctx context.Context, c *connection, params wire.ProgramParams) (any, error) {
	path, err := c.server.spawner.Resolver().Program(ctx, params.Name, params.Dir, params.Path)
	if typed, is := errors.AsType[*messages.Error](err); is && typed.Code != messages.ErrCancelled {
		return wire.ProgramResult{Error: typed}, nil
	}
	return wire.ProgramResult{Path: path}, err
}

// path describes the file at a path.
func path(ctx context.Context, c *connection, params wire.PathParams) (any, error) {
	resolver := c.server.spawner.Resolver()
	file, err := resolver.IsFile(ctx, params.Path)
	if err != nil {
		return nil, err
	}
	dir, err := resolver.IsDir(ctx, params.Path)
	return wire.PathResult{IsFile: file, IsDirectory: dir}, err
}

// leads says where a path leads.
func leads(ctx context.Context, c *connection, params wire.PathParams) (any, error) {
	follower, is := c.server.spawner.Resolver().(ptyio.Follower)
	if !is {
		return wire.LeadsResult{}, nil
	}
	path, err := follower.Leads(ctx, params.Path)
	return wire.LeadsResult{Path: path}, err
}
