// Package seccomp makes the system call filters of confined commands.
//
//	filter := seccomp.Filter(seccomp.Kind{Network: seccomp.Off})
//	steps = append(steps, birth.NoNewPrivs(), birth.Seccomp(filter), ...)
//
// A filter is a deny list: what no rule names is allowed. Rules is that list, and Filter compiles it into a search tree over
// system call numbers, so that most calls meet seven comparisons and not two hundred. Before the search it looks at the
// architecture: a call in another one (int 0x80 on amd64) kills the process, and the x32 numbers of amd64 do not exist.
//
// # What a filter cannot do
//
// It sees numbers, not what they point to. So clone3 and openat2, whose flags are behind a pointer, do not exist where the flags
// matter (ENOSYS, after which programs use clone and openat). It cannot tell one unix socket from another: they are allowed or not.
//
// The package imports nothing but unix: a warden uses it.
package seccomp
