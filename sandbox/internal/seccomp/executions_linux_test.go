//go:build amd64 || arm64

package seccomp

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestExecutionsAreReportedUnlessTheyShowTheSecret(t *testing.T) {
	secret := [2]uint32{0x1234567, 0x89abcdef}
	decide := machine(t, Executions(secret))
	report, allow := uint32(unix.SECCOMP_RET_USER_NOTIF), uint32(unix.SECCOMP_RET_ALLOW)
	showing := func(number uint32, first, second uint32) call {
		return native(number, 1, 2, 3, 4, uint64(first), uint64(second))
	}
	for _, test := range []struct {
		name string
		call call
		want uint32
	}{
		{"execve", native(unix.SYS_EXECVE), report},
		{"execve with the secret", showing(unix.SYS_EXECVE, secret[0], secret[1]), allow},
		{"with its first half", showing(unix.SYS_EXECVE, secret[0], 0), report},
		{"with its second half", showing(unix.SYS_EXECVE, 0, secret[1]), report},
		{"with the halves exchanged", showing(unix.SYS_EXECVE, secret[1], secret[0]), report},
		{"execveat", native(unix.SYS_EXECVEAT), report},
		{"execveat with the secret", showing(unix.SYS_EXECVEAT, secret[0], secret[1]), report},
		{"another call with the secret", showing(unix.SYS_READ, secret[0], secret[1]), allow},
	} {
		if got := decide(test.call); got != test.want {
			t.Errorf("%s: %#x", test.name, got)
		}
	}
	reported := map[uint32]bool{unix.SYS_EXECVE: true}
	for _, number := range executions {
		reported[number] = true
	}
	for _, base := range []uint32{0, firstMissing} {
		for number := base; number < base+1000; number++ {
			if got := decide(native(number)) == report; got != reported[number] {
				t.Errorf("call %d: reported is %v", number, got)
			}
		}
	}
	for number := range uint32(1000) { // 32-bit programs
		is := number == foreignExecutions[0] || number == foreignExecutions[1]
		if got := decide(call{architecture: architecture + 1, number: number}) == report; got != is {
			t.Errorf("call %d of another architecture: reported is %v", number, got)
		}
	}
}
