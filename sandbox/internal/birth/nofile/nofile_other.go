//go:build !linux || (!amd64 && !arm64)

package nofile

// First is zero: nothing uses it here.
var First Limit
