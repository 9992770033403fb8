package patch

import "github.com/execbus/execbus/messages"

// Intercepted is a patch that was given as a command.
type Intercepted struct {
	Text string // the patch
	Dir  string // of "cd DIR && apply_patch": as it is written, so perhaps relative to the command's directory; empty: there is none
}

// Intercept finds the patch in a command that is nothing but a call of apply_patch. Without one, the command is to be run. An error refuses
// a script that is a patch itself.
func Intercept(command *messages.ExecCommand) (Intercepted, bool, error) {
	return Intercepted{}, false, nil
}
