// Package size reads numbers of bytes as people write them in settings.
//
// # What you must not assume
//
// That a number is positive: -1 is one, too.
package size

import (
	"errors"
	"strconv"
	"strings"
)

// Parse reads a number of bytes, which may end in K, M or G.
func Parse(text string) (int64, error) {
	factor := int64(1)
	for i, unit := range []string{"K", "M", "G"} {
		if number, found := strings.CutSuffix(text, unit); found {
			text, factor = number, 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if n > 1<<62/factor {
		return 0, errors.New("too large")
	}
	return n * factor, err
}
