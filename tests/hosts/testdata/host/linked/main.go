// This program is a host that is linked with a library which only LD_LIBRARY_PATH finds.
package main

// #cgo LDFLAGS: -L${SRCDIR}/../libraries -lodd
// int odd(void);
import "C"

import "a.example/host/play"

func main() {
	if C.odd() == 1 {
		play.Play()
	}
}
