// Package record writes what a process printed and what happened to it into files that can be played: asciicast, the format of asciinema.
//
//	recorder, err := record.New(record.Options{Dir: "/var/log/agent"})
//	events, err := session.Events(execbus.Watch{Lossless: true})
//	go recorder.Follow(ctx, events)
//
// Hosts of package execbus set SessionOptions.Record instead, which does this.
//
// # What is recorded
//
// Each process that starts has a file of its own, version 3 of the format, with mode 0600 and a name of its own: time, session, process. It has
// output, input where that is wanted, sizes of the terminal, the exit code, and marks: the call that began the process, polls, writes,
// signals, questions and answers, decisions and attempts, losses. The times are those of the events. Output that is no UTF-8 is U+FFFD, because
// the format has text; the output of pipes is as a terminal would show it, with lines that begin at the left.
//
// Input is what events have: never what a terminal does not show, and keys and the input of pipes only in a session with RecordRaw. Where the
// input itself is not recorded, a mark has its length and its kind.
//
// # Bounds
//
// Lines are written in batches of 32 KiB, and all that there are whenever no event waits. So a host that is killed leaves a file that can be
// read, of which at most the last line is unfinished. A recording of more than [Options.PerProcess] bytes (256 MiB), or all of a Recorder with
// more than [Options.Total] (2 GiB), says so in a mark and goes on only with the exit. A disk that is full, or that does not take a write for
// [MaxStall], ends the recording and not the process; [Options.Notice] is told, once for each reason. Each process costs a goroutine, a
// descriptor and at most three batches of memory.
//
// # Reading
//
// [NewReader] reads versions 2 and 3, event by event, with errors that name the line. It keeps one line in memory, of at most [MaxLine] bytes.
// [WriteVersion2] writes for older players. [Drawing] keeps a recording from asking the terminal that it is played on, or telling it more than
// what to draw.
//
// # What you must not assume
//
// That a recording is the output byte by byte: see package spool for that.
//
// That no secret is in a recording. A program may print one, a command line has one, and a line that a terminal shows is shown.
//
// That a file is complete because its process has ended: Follow returns when it is, and Session.Close waits for that.
//
// That old recordings are removed: nobody does.
package record
