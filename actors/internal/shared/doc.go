// Package shared has what every actor is given, all of it values that are not changed: the dependencies of a runtime and how
// patient it is with a host's own code, the settings that a session's commands begin with, the request of one command, the lookup
// of a sandbox's paths, and the instruments.
package shared
