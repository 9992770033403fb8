package isolate

import (
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/confine"
)

// knownSockets returns the existing sockets of agents, daemons and displays that the plan does not list. A process that reaches
// them acts as the user, or as root, outside. A directory that holds a listed socket is covered socket by socket.
func knownSockets(listed []confine.Rule) (there []covered) {
	within := func(dir string) bool {
		return slices.ContainsFunc(listed, func(s confine.Rule) bool { return strings.HasPrefix(s.Path, dir+"/") })
	}
	for _, candidate := range candidates() {
		name, err := resolve(candidate)
		if err != nil || slices.ContainsFunc(listed, func(s confine.Rule) bool { return s.Path == name }) ||
			slices.ContainsFunc(there, func(c covered) bool { return c.path == name || strings.HasPrefix(name, c.path+"/") }) {
			continue
		}
		info, err := os.Lstat(name)
		switch {
		case err != nil:
		case !info.IsDir() && info.Mode()&os.ModeSocket == 0:
		case info.IsDir() && within(name):
			there = append(there, sockets(name, listed)...)
		default:
			there = append(there, covered{name, blankFor(info.IsDir())})
		}
	}
	return there
}

// resolve returns the path without links of a file that exists.
func resolve(name string) (string, error) {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
}

// maxSockets bounds the search through a directory of sockets: it is how many files and directories are looked at.
const maxSockets = 256

// sockets returns the sockets below a directory that are not listed.
func sockets(dir string, listed []confine.Rule) (found []covered) {
	dirs := []string{dir}
	for seen := 0; len(dirs) > 0 && seen < maxSockets; dirs = dirs[1:] {
		entries, _ := os.ReadDir(dirs[0])
		for _, entry := range entries[:min(len(entries), maxSockets-seen)] {
			seen++
			name := path.Join(dirs[0], entry.Name())
			switch {
			case entry.IsDir():
				dirs = append(dirs, name)
			case entry.Type()&os.ModeSocket != 0 && !slices.ContainsFunc(listed, func(s confine.Rule) bool { return s.Path == name }):
				found = append(found, covered{name, blankFile})
			}
		}
	}
	return found
}

// candidates returns the paths of such sockets, directories before the sockets in them.
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
	if display := os.Getenv("WAYLAND_DISPLAY"); path.IsAbs(display) {
		paths = append(paths, display)
	}
	home := os.Getenv("GNUPGHOME")
	if home == "" && os.Getenv("HOME") != "" {
		home = path.Join(os.Getenv("HOME"), ".gnupg")
	}
	for _, name := range []string{"S.gpg-agent", "S.gpg-agent.ssh", "S.gpg-agent.extra", "S.gpg-agent.browser", "S.scdaemon", "S.keyboxd", "S.dirmngr"} {
		paths = append(paths, path.Join(home, name))
	}
	return slices.DeleteFunc(paths, func(name string) bool { return !path.IsAbs(name) || name == "/" })
}

// socketOf returns the path in unix:///path and unix:path=/path,more.
func socketOf(address string) string {
	name, found := strings.CutPrefix(address, "unix:")
	if !found {
		return ""
	}
	name = strings.TrimPrefix(strings.TrimPrefix(name, "//"), "path=")
	name, _, _ = strings.Cut(name, ",")
	return name
}
