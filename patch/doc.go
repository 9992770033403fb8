// Package patch reads patches in the language of apply_patch, which models write, and plans what they change. Nothing here reads a file, writes
// one or starts a program: the caller says what the files are, and is told what they become. Package patch/writer does the rest.
//
//	p, err := patch.Parse(text)             // an error has the number of the line
//	files := look(p.Paths(dir))             // the caller's: one File for each path
//	plan, err := p.Plan(dir, files)         // all operations fit, or there is no plan
//	for _, change := range plan.Changes {   // the caller's: what was, and what becomes of it
//		…
//	}
//	fmt.Print(plan.Summary())               // Success. Updated the following files: …
//
// [Intercept] finds patches that come as commands: apply_patch with a here-document, perhaps behind "cd DIR &&".
//
// # The language
//
//	*** Begin Patch
//	*** Add File: new.txt
//	+its lines
//	*** Delete File: old.txt
//	*** Update File: main.go
//	*** Move to: cmd/main.go
//	@@ func main() {
//	 	a line that stays
//	-	a line that goes
//	+	a line that comes
//	*** End Patch
//
// A hunk has no line numbers. Its lines that stay and go are looked for as one block, from the hunk before on; "@@ TEXT" first goes
// behind the next line that is TEXT. They need not be equal: if they are nowhere, white space at the end is ignored, then white space at both
// ends, then what makes typographic dashes, quotes and spaces different from plain ones. If a hunk ends with a blank line too many, that is
// ignored. "*** End of File" behind a hunk says that the file ends there. Lines that stay keep their text; those that come get the
// line end of the file's first line. A file that was updated ends with a line end, unless it is empty.
//
// Each operation sees what the ones before it did. Paths are joined to the directory as text, and may lead anywhere. A file that is
// updated has to be UTF-8, as the patch has to be; one that is deleted, or added over, may be anything.
//
// # What is different
//
// All of this is what the program apply_patch was seen to do in more than 500 cases, which are tests here, but for this:
//
//   - A patch that fails changes nothing.
//   - A move of a file onto itself, under any of its names, is an update.
//   - What a file is moved onto must be absent or a file.
//   - A move keeps the mode.
//   - Overwriting by an Add or a Move is named.
//   - Lines that are only added under "@@ TEXT" go behind TEXT.
//   - Tabs stay in paths, and so do carriage returns.
//   - A link that leads nowhere can be deleted.
//   - Only files and links can be deleted.
//   - A path that led through a link which the patch has removed is refused.
//   - Every error has its cause.
//   - In commands: where a shell would expand something in front of the here-document, the command is run; only scripts of shells are looked at;
//     the directory has to exist; tabs are taken off behind "<<-".
//
// And as there: an Add cannot write a file without a line end at its end, nor one with CR LF.
//
// # Bounds
//
// A patch has at most [MaxPatch] bytes, [MaxLines] lines and [MaxOperations] operations. A file has at most [MaxFile] bytes, and [MaxFileLines]
// lines if it is updated; all that is read, and all that the operations write, at most [MaxTotal] bytes each. The search for hunks ends after
// 130 million comparisons of lines, which take less than a second. Beyond these bounds a patch is refused. In an error, at most 40 lines are quoted,
// and 300 bytes of each.
//
// # What you must not assume
//
// That a plan is still right when it is carried out: a file may have changed since it was looked at. The writer compares it with what
// the change says it was.
//
// That a patch stays in its directory. The paths of the changes are where the files are, with all links followed, and the place to decide about.
//
// That directories which become empty are removed, or that one is made for a file that the same patch removes again.
//
// That what [Intercept] finds is a patch: it is what was given as one.
package patch
