// Package output keeps what a process has said: a log, which numbers the bytes of each delta, and the part that no answer has taken
// yet. The process's actor owns it, and its session after the end.
//
//	child ── batch ──▶ Feed.Receive
//	                     │ a splitter for each stream: whole characters; an unfinished one waits, with its credit
//	                     ▼
//	                   the log gives the delta its number and its offset
//	                     ├──▶ Unread, the cursor that all polls and writes share
//	                     └──▶ the other sinks, in their order: the bus, the count, the streams of a run
//	                   the batch's credit goes back when all of them are done
//
//	Read answers a ReadOutput from the log, Take fills a Result from Unread, and ExecEnded is the event of the end.
package output
