// Package seatbelt writes profiles for the sandbox of macOS: the text of a policy, and the parameters that hold its paths.
//
//	profile := seatbelt.Write(seatbelt.RulesOf(&found.Plan)) // of package paths
//	argv := profile.Argv("/usr/bin/make", "-j2")
//
// The text can be made and tested on any system; only macOS's own sandbox-exec can say whether it accepts it. Paths are
// parameters and never part of the text, so no name can change its meaning.
package seatbelt
