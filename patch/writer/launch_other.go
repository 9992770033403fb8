//go:build !linux

package writer

import (
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// Launch says that files of patches are read and written on Linux only.
func Launch() (ptyio.Launch, error) {
	return ptyio.Launch{}, &messages.Error{Code: messages.ErrUnsupported, Op: "apply patch", Subject: "files",
		Detail: "this system has no way to read and write the files of a patch safely; use Linux"}
}
