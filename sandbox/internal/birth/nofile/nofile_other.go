//go:build !linux || (!amd64 && !arm64)

package nofile

// First is zero: nobody asks for it here.
var First Limit
