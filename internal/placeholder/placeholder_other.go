//go:build !linux

package placeholder

// Is reports whether there is one at a path. Only Linux needs placeholders.
func Is(string) bool { return false }
