// This program is a host: it starts a command that leaves a daemon behind, and prints how both ended.
package main

import (
	"a.example/host/play"
)

func main() { play.Play() }
