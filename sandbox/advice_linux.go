package sandbox

import (
	"os"
	"strings"
)

// namespacesAdvice says what would let this process have namespaces. It goes by what is usually in the way: a bound of the system, or a
// container runtime.
func namespacesAdvice() string {
	for _, setting := range []struct{ name, refuses, allows string }{
		{"user.max_user_namespaces", "0", "10000"},
		{"kernel.unprivileged_userns_clone", "0", "1"},             // Debian's kernels
		{"kernel.apparmor_restrict_unprivileged_userns", "1", "0"}, // Ubuntu's from 23.10 on
	} {
		value, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(setting.name, ".", "/"))
		if err == nil && strings.TrimSpace(string(value)) == setting.refuses && (os.Geteuid() != 0 || setting.name == "user.max_user_namespaces") {
			return "sudo sysctl -w " + setting.name + "=" + setting.allows
		}
	}
	if inContainer() {
		return "in Docker and Podman: --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined; " +
			"in Kubernetes: hostUsers: false, procMount: Unmasked, seccompProfile and appArmorProfile of type: Unconfined"
	}
	return "let this user create user namespaces (user.max_user_namespaces, AppArmor, a filter), or accept confined where that is enough"
}

// inContainer reports whether a container runtime has started this process: it leaves a file, or its filter and its masks.
func inContainer() bool {
	for _, file := range []string{"/.dockerenv", "/run/.containerenv", "/var/run/secrets/kubernetes.io"} {
		if _, err := os.Stat(file); err == nil {
			return true
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	return err == nil && strings.Contains(string(mounts), " /proc/kcore ")
}
