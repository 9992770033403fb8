//go:build amd64 || arm64

package nofile

// First is what the process began with; zero if the kernel would not say.
var First = read()

func read() (first Limit) {
	if get(&first) != 0 {
		return Limit{}
	}
	return first
}

// get returns what prlimit64 does.
//
//go:noescape
func get(limit *Limit) int
