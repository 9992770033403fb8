// Package attack tries to break out of the sandbox, from inside.
//
// An attack has three parts: a setup outside the sandbox, the attempt by a confined child, and a check of the result from outside.
// The child is this test binary, executed again, and makes the system calls itself. An attack names the weakest level at which it
// must fail, and runs at every level that the machine has. If it is safe, the test first shows that the attack works without a
// sandbox. The tests print the attacks that they cannot try on the machine.
//
//	go test -v ./tests/attack
//
// If root runs the tests, the host under attack is one that runs as root; otherwise it is one that runs as an ordinary user.
package attack
