package messages

import "time"

// ApplyPatch asks for a patch to be applied: a text in the language of package patch. It is answered once: with a *PatchResult when all
// of it was done, or with an *Error; then nothing was changed, unless the error names the files that are. The patches of a session are
// applied one after the other, in the order of the calls.
type ApplyPatch struct {
	// Call is the caller's name for this call; events carry it. It may be empty.
	Call CallID `json:"call,omitempty"`
	// Owner is a label for the turn, subagent or other unit that the patch belongs to: see ExecCommand.
	Owner string `json:"owner,omitempty"`
	// Text is the patch, from "*** Begin Patch" to "*** End Patch".
	Text string `json:"text"`
	// Dir is the directory that relative paths begin at; a relative one is relative to the session's, and empty means the session's.
	Dir string `json:"dir,omitempty"`
	// Justification tells the person who is asked, if one is, why the patch is needed.
	Justification string `json:"justification,omitempty"`
	// KeepExisting refuses a patch that would add a file, or move one, over another. Otherwise the other is overwritten, as the question,
	// the event and the result say.
	KeepExisting bool `json:"keepExisting,omitempty"`
	// CheckOnly reads the files, matches the patch and decides about it, and writes nothing. Nobody is asked: a patch that needs an
	// answer is an error that matches ErrRejected. The result says what would be done.
	CheckOnly bool `json:"checkOnly,omitempty"`
	// EachOnce refuses a patch with two operations on one path. Otherwise each operation sees what the ones before it did.
	EachOnce bool `json:"eachOnce,omitempty"`
}

// ChangeKind says what a patch does to a file.
type ChangeKind string

// The kinds of changes.
const (
	ChangeAdd    ChangeKind = "add"
	ChangeUpdate ChangeKind = "update"
	ChangeDelete ChangeKind = "delete"
	ChangeMove   ChangeKind = "move" // and perhaps update
)

// ChangeState says what has become of a file.
type ChangeState string

// The states.
const (
	StatePlanned   ChangeState = "planned"   // it was not touched
	StateChanged   ChangeState = "changed"   // as the patch says
	StateRestored  ChangeState = "restored"  // it was changed, and is as before again
	StateUncertain ChangeState = "uncertain" // it may be changed: look at it
)

// FileChange is what a patch does to one file.
type FileChange struct {
	// Path is absolute and leads through no symbolic link; Named is the path that the patch has, made absolute, if that is another.
	Path  string `json:"path"`
	Named string `json:"named,omitempty"`
	// From is, for a move, the path that the file had before.
	From string     `json:"from,omitempty"`
	Kind ChangeKind `json:"kind"`
	// Overwrites says that an addition or a move puts the file in the place of another one.
	Overwrites bool `json:"overwrites,omitempty"`
	// Added and Removed count lines.
	Added   int `json:"added"`
	Removed int `json:"removed"`
	// Before and After are the SHA-256 sums of the contents in hexadecimal digits; empty where there is no file.
	Before string      `json:"before,omitempty"`
	After  string      `json:"after,omitempty"`
	State  ChangeState `json:"state"`
	// Detail says why the state is uncertain.
	Detail string `json:"detail,omitempty"`
}

// PatchResult says what a patch has done, or, after a check, would do.
type PatchResult struct {
	Call  CallID       `json:"call,omitempty"`
	Files []FileChange `json:"files"`
	// Summary is for the model: "Success. Updated the following files:" and a line for each operation.
	Summary string `json:"summary"`
	// Overwritten are sentences that name the files in whose place the patch put others.
	Overwritten []string `json:"overwritten,omitempty"`
	// WallTime is how long the call took.
	WallTime time.Duration `json:"wallTimeNs"`
}

// PatchQuestion is what a question about a patch shows besides its paths.
type PatchQuestion struct {
	// Files are the changes, at most MaxQuestionFiles of them; MoreFiles counts the others.
	Files     []FileChange `json:"files"`
	MoreFiles int          `json:"moreFiles,omitempty"`
	// Diff is the difference for a person's eyes, at most MaxQuestionDiff bytes: its middle may be cut, and characters that cannot be seen
	// are escaped.
	Diff string `json:"diff"`
}

// Bounds of what a question shows of a patch.
const (
	MaxQuestionFiles = 64
	MaxQuestionDiff  = 16 << 10 // bytes
)

// PatchStarted is published when a patch fits and may be applied, right before the first file is written. One PatchApplied or
// PatchFailed follows it.
type PatchStarted struct {
	Origin
	Dir   string       `json:"dir"`
	Files []FileChange `json:"files"`
}

// PatchApplied is published when all of a patch was done.
type PatchApplied struct {
	Origin
	Files []FileChange `json:"files"`
	// Diff is the difference as a question shows it, at most MaxQuestionDiff bytes. It has contents of files, so it is in no JSON: what
	// logs and streams keep of a patch are names and sums.
	Diff string `json:"-"`
}

// PatchFailed is published when a patch was not applied: it does not fit, it was not allowed, or writing failed. Without a PatchStarted
// before it nothing was written. Files says what has become of each file; it is empty if the patch could not be matched.
type PatchFailed struct {
	Origin
	Err   Error        `json:"err"`
	Files []FileChange `json:"files,omitempty"`
}

// Kind implements Event.
func (PatchStarted) Kind() EventKind { return KindPatchStarted }

// Kind implements Event.
func (PatchApplied) Kind() EventKind { return KindPatchApplied }

// Kind implements Event.
func (PatchFailed) Kind() EventKind { return KindPatchFailed }
