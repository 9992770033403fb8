//go:build !linux

package sandbox

import "github.com/execbus/execbus/messages"

// limited refuses the limits that the kernel would have to enforce. ptyio enforces those on bytes and wall time.
func limited(e messages.Enforcement, l messages.Limits) (messages.Enforcement, error) {
	l.OutputBytes, l.WallTime = 0, 0
	if set := l.Set(); len(set) > 0 {
		return e, &messages.Error{Code: messages.ErrUnsupported, Op: "spawn", Subject: "limit " + string(set[0]),
			Detail: "nothing here can enforce it; leave the limit out"}
	}
	return e, nil
}
