package denial

import (
	"regexp"
	"sync"
)

// lazily returns a pattern that is compiled when it is first used, because most programs that import this package never
// look at a denial.
func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
