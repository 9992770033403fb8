//go:build amd64 || arm64

package nofile

// First is the limit that the process began with; zero if the kernel did not return it.
var First = read()

func read() (first Limit) {
	if get(&first) != 0 {
		return Limit{}
	}
	return first
}

// get returns the result of prlimit64.
//
//go:noescape
func get(limit *Limit) int
