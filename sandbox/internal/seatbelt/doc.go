// Package seatbelt writes profiles for the sandbox of macOS: the text of a policy, and the parameters that hold its paths.
//
//	profile := seatbelt.Write(seatbelt.Rules{Write: []seatbelt.Root{{Path: "/Users/ann/src", Protected: []string{"/Users/ann/src/.git"}}}})
//	argv := profile.Argv("/usr/bin/make", "-j2")
//
// The text is made anywhere and tested anywhere; only the system's own sandbox-exec can say whether it accepts it. Paths are
// parameters and never part of the text, so that no name can change what it says.
package seatbelt
