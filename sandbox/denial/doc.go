// Package denial finds out whether a sandbox has stopped a command, from the kernel's report and the command's output.
//
//	d := denial.Of(denial.Facts{Status: status, Output: output, Dir: "/src", Rules: rules})
//	if d != nil {
//		fmt.Println(d, d.Grant) // the sandbox denied write /etc/hosts …
//	}
//
// # What counts
//
// A command that succeeds was not stopped. One that was killed by SIGSYS was, for certain. For every other command there is
// only its output. Lines that report a refusal ("permission denied", "read-only file system", …) are searched for the path
// or the address that was refused. This is then compared with the rules:
//
//   - if the rules forbid it, the denial is certain; it names the path or address, the rule and the smallest grant that
//     would have allowed it;
//   - if the rules allow it, something else refused it, such as the file's mode; such a line proves nothing;
//   - if nobody answers at an address although the network is off, or the command has gone to another directory by itself, the
//     denial is a guess: a server outside of the sandbox may have been meant, or one that does not run;
//   - a unix socket is not the network, and no grant would help;
//   - if it is not clear whether a file was to be read or written, or if a line names nothing, the denial is a guess, and
//     FromText is set.
//
// A grant names the directory in which a file is made or replaced, but in a home directory the file itself, which has to exist when
// the command starts.
//
// Of 121 ordinary failures and 103 denied commands that were run at both levels, none of the former was called denied, and 5 of
// the latter are missed; testdata says which and why.
//
// # What you must not assume
//
// That it is right. A program can print anything or nothing, and the rules are compared by name: symbolic links below a root
// are not followed. So a denial is a reason to ask for more rights and never one to take them.
package denial
