//go:build amd64 || arm64

package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Executions compiles a filter that reports execve and execveat to its listener, and allows everything else. It allows the execve that
// shows the secret as its fifth and sixth argument. What other filters deny they deny before it is reported.
func Executions(secret [2]uint32) []unix.SockFilter {
	report := result(unix.SECCOMP_RET_USER_NOTIF)
	foreign := append(code{load(dataCall)}, calls(foreignExecutions, report)...)
	own := code{
		load(dataCall),
		jump(unix.BPF_JEQ, unix.SYS_EXECVE, 0, 5),
		load(dataArguments + 8*4),
		jump(unix.BPF_JEQ, secret[0], 0, 2),
		load(dataArguments + 8*5),
		jump(unix.BPF_JEQ, secret[1], uint8(1+2*len(executions)), 0), // to the end
		report,
	}
	own = slices.Concat(own, calls(executions, report))
	return slices.Concat(code{
		load(dataArchitecture),
		jump(unix.BPF_JEQ, architecture, uint8(len(foreign)), 0),
	}, foreign, own)
}

// calls reports these calls and allows all others. The number is in the accumulator, unless none of them may be the call.
func calls(numbers []uint32, report unix.SockFilter) (body code) {
	for _, number := range numbers {
		body = append(body, jump(unix.BPF_JEQ, number, 0, 1), report)
	}
	return append(body, allowed()...)
}

// Execution says of a call that the filter has reported whether it is execveat, and whether the addresses in its memory have four bytes.
func Execution(arch, call uint32) (at, narrow bool) {
	at = arch == architecture && (call == unix.SYS_EXECVEAT || call == firstMissing+545) || arch != architecture && call == foreignExecutions[1]
	return at, arch != architecture || call >= firstMissing
}
