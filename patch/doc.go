// Package patch reads patches in the language of apply_patch and plans what they change. Nothing here reads a file, writes one or starts
// a program: the caller gives what the files are and gets what they become.
//
//	p, err := patch.Parse(text)                    // an error has the number of the line
//	files := readAll(p.Paths(dir))                 // the caller's: one File per path
//	plan, err := p.Plan(dir, files)                // all operations fit, or none does
//	for _, change := range plan.Changes { … }      // the caller's: what was, what becomes of it
//	fmt.Print(plan.Summary())
package patch
