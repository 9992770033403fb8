// This program is a host: it starts a command that leaves a daemon, and says what came of it.
package main

import (
	"a.example/host/play"
)

func main() { play.Play() }
