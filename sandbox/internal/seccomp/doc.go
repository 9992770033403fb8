// Package seccomp makes the system call filters of confined commands.
//
//	filter := seccomp.Filter(seccomp.Kind{Network: seccomp.Off})
//	steps = append(steps, birth.NoNewPrivs(), birth.Seccomp(filter), ...)
//
// A filter is a deny list: it allows every call that no rule names. Rules is that list, and Filter compiles it into a
// search tree over system call numbers, so that most calls need seven comparisons and not two hundred. Before the search it
// looks at the architecture: a call in another one (int 0x80 on amd64) kills the process, and the x32 numbers of amd64 do
// not exist.
//
// # What a filter cannot do
//
// It sees numbers, not the memory that they point to. So clone3 and openat2, whose flags and modes are behind a pointer, do
// not exist: they fail with ENOSYS, and programs then use clone and openat. It cannot tell one unix socket
// from another, so it allows all or none.
//
// The package imports nothing but unix: a warden uses it.
package seccomp
