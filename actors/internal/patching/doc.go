// Package patching is the actor of one call that applies a patch.
//
//	waiting ── BeginPatch, when the session's patches before it are over ──▶
//	reading ── a program reads the files under the session's sandbox policy; the patch is matched, and policy decides
//	   │  run: the same program goes on          ask: it ends, and a Consult goes to the approval actor
//	   │                                      asking ── Verdict ──▶ another program, whose sandbox is wider by what was approved
//	   ▼                                         ▼
//	writing ── PatchStarted; the journal is written, then the files
//	   ▼
//	over ── PatchApplied or PatchFailed, Answered, and the answer to the caller ──▶ stopped
//
// It answers once. Whatever blocks is work of the actor in other goroutines, and talks to the program as a stream. CancelCall and EndPatch
// end a patch that is not being written yet; one that is being written is finished, because half of it is nobody's wish, but not for longer
// than the patience with a host's own code: then the program is killed, and another one brings the files to one side.
//
// What is not done when this actor ends, because it has crashed or the host was killed, the journal knows: see package patch/writer.
package patching
