package isolate

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/execbus/execbus/sandbox/internal/confine"
)

// knownSockets returns the existing sockets of agents, daemons and displays that the plan does not list. A process that reaches
// them acts as the user, or as root, outside. A directory that holds a listed socket is covered socket by socket.
func knownSockets(listed []confine.Place) (there []covered) {
	within := func(dir string) bool {
		return slices.ContainsFunc(listed, func(s confine.Place) bool { return strings.HasPrefix(s.Path, dir+"/") })
	}
	for _, candidate := range candidates() {
		path, err := filepath.EvalSymlinks(candidate)
		if err != nil || slices.ContainsFunc(listed, func(s confine.Place) bool { return s.Path == path }) ||
			slices.ContainsFunc(there, func(c covered) bool { return c.path == path || strings.HasPrefix(path, c.path+"/") }) {
			continue
		}
		info, err := os.Lstat(path)
		switch {
		case err != nil:
		case !info.IsDir() && info.Mode()&os.ModeSocket == 0:
		case info.IsDir() && within(path):
			there = append(there, sockets(path, listed)...)
		default:
			there = append(there, covered{path, blankFor(info.IsDir())})
		}
	}
	return there
}

// maxSockets bounds the search through a directory of sockets.
const maxSockets = 256

// sockets returns the sockets below a directory that are not listed.
func sockets(dir string, listed []confine.Place) (found []covered) {
	seen := 0
	_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if seen++; seen > maxSockets {
			return filepath.SkipAll
		}
		if err == nil && entry.Type()&os.ModeSocket != 0 && !slices.ContainsFunc(listed, func(s confine.Place) bool { return s.Path == path }) {
			found = append(found, covered{path, blankFile})
		}
		return nil
	})
	return found
}

// candidates returns the places of such sockets, directories before the sockets in them.
func candidates() (paths []string) {
	runtime := "/run/user/" + strconv.Itoa(os.Getuid())
	paths = []string{os.Getenv("XDG_RUNTIME_DIR"), runtime, "/tmp/.X11-unix", "/run/containerd", "/run/podman", "/run/crio", "/run/dbus",
		"/run/systemd/private", "/run/docker.sock", "/run/snapd.socket", "/run/lxd.socket", "/var/lib/lxd/unix.socket", "/run/libvirt",
		os.Getenv("SSH_AUTH_SOCK")}
	for _, variable := range []string{"DOCKER_HOST", "CONTAINER_HOST", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS"} {
		for address := range strings.SplitSeq(os.Getenv(variable), ";") {
			paths = append(paths, socketOf(address))
		}
	}
	if display := os.Getenv("WAYLAND_DISPLAY"); filepath.IsAbs(display) {
		paths = append(paths, display)
	}
	home := os.Getenv("GNUPGHOME")
	if home == "" && os.Getenv("HOME") != "" {
		home = filepath.Join(os.Getenv("HOME"), ".gnupg")
	}
	for _, name := range []string{"S.gpg-agent", "S.gpg-agent.ssh", "S.gpg-agent.extra", "S.gpg-agent.browser", "S.scdaemon", "S.keyboxd", "S.dirmngr"} {
		paths = append(paths, filepath.Join(home, name))
	}
	return slices.DeleteFunc(paths, func(path string) bool { return !filepath.IsAbs(path) || path == "/" })
}

// socketOf returns the path in unix:///path and unix:path=/path,more.
func socketOf(address string) string {
	path, found := strings.CutPrefix(address, "unix:")
	if !found {
		return ""
	}
	path = strings.TrimPrefix(strings.TrimPrefix(path, "//"), "path=")
	path, _, _ = strings.Cut(path, ",")
	return path
}
