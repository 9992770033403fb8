// Package attack tries to break out of the sandbox, from inside.
//
// An attack has three sides: a setup outside, the attempt by a confined child (this test binary, executed again, which makes the
// system calls itself), and a look at the result from outside. It names the weakest level at which it must fail, and runs at
// every level that there is here. Where that is safe it is first shown that the attack works without a sandbox. What cannot be
// tried here is printed.
//
//	go test -v ./tests/attack
//
// As root the attacks are those of a host that runs as root, and as an ordinary user those of a user.
package attack
