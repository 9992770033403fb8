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
//   - if it is not clear whether a file was to be read or written, or if a line names nothing, the denial is a guess, and
//     FromText is set.
//
// # What you must not assume
//
// That it is right. A program can print anything or nothing, and the rules are compared by name: symbolic links below a root
// are not followed. So a denial is a reason to ask for more rights and never one to take them.
package denial
