// Package window is a page for the people around a host: what runs, what it shows, what it asks, and a hand on the keyboard.
//
//	w, err := window.New(runtime, window.Options{})
//	if err != nil {
//		return err
//	}
//	defer w.Close()
//	base, err := w.Serve("127.0.0.1:0", nil) // or use w, an http.Handler, in a server of the host's own
//	if err != nil {
//		return err
//	}
//	fmt.Println(w.Link(base)) // good for one browser
//
// "execbus mcp --window ADDRESS" and ":window" in the demo do this. "execbus serve --window ADDRESS" shows what an exec-server runs: see below.
// The page is made on the server, with one script and one style of its own; it loads nothing from elsewhere, and works by keyboard alone, without colours, and on the width of a telephone.
//
// # What it shows
//
// The overview has the questions that are open, the sessions, their processes that live or are remembered, and the approvals that hold. Of
// each process it has the command, the state and what it waits for, as Session.List finds it, its age, the processor time and memory of its
// tree and its output as small plots, and how it is confined and limited. A search finds processes by command, directory, owner, state or
// number. The page of one session also has its time line: starts, ends, refusals, answers, connections to hosts, patches, signals and who had
// a keyboard. The time lines begin with New; each has the last 256 entries.
//
// It looks at the processes every second while something happens, less and less often otherwise, down to every 10 s, 100 ms after an event,
// and not at all while no page is open. Processor time and memory are those of /proc, on Linux and for commands on this machine.
//
// The page of a process has its screen, live. Package view makes it on the server, once for all who watch, from the process's log; each browser
// gets the rows that have changed, at most 30 times a second, and fewer where more than 50 watch one process. A screen never holds up its
// process: one that is more than 256 KiB behind begins again with the last 64 KiB, and says that it is approximate until the program clears
// the screen. A process that is watched is in use: it is not ended to make room for another. A program that asks meanwhile where its cursor
// is gets the position on this screen, once: see Session.PlaceCursor. All that is kept of the output, in memory and in a spool, can be read as
// text or as bytes, searched by lines, and taken as a file, and so can the recording, if there is one. The page also has the programs that the
// tree has executed, where the session sees them, and connections to hosts. The difference of a patch is in its question, and in the time line
// of its session when it was applied: the last 16 of a session, 16 KiB each.
//
// # What people can do
//
// A question shows messages.Question.Text, as a terminal does, and its choices as buttons, with what each would remember; 1 to 9 press them.
// The first answer counts, wherever it is given. While somebody who may answer has a page open, and for 10 s after that, there is somebody who
// can be asked: commands wait for an answer that would otherwise be rejected at once.
//
// The keyboard of a terminal is taken with a button: see Session.TakeKeyboard. The terminal gets the size of the browser's window, and keys, input
// methods and pastes go to the program; Ctrl+Shift+Space leaves it. The keyboard is given back by hand, 10 s after the page has gone, after
// 10 minutes without input, and when the program exits. Signals, the end of the input and the end of the process have buttons.
//
// Input travels in numbered actions: a page that has lost its connection connects again, sends those that were not answered, and each is
// done once, as long as the server runs.
//
// # Secrets
//
// What is typed is nowhere in this package but in the request that brings it: no log, no page and no other browser gets it. It is on the screen if
// the program shows it, and in messages.TerminalInteraction under the rules of that event: what a terminal does not show is in none. The
// browser keeps it until the server has answered.
//
// # Who may
//
// A link has a token that is good once: the browser gets a cookie for it (HttpOnly, SameSite=Strict), whose path is random, so that other servers
// on this machine do not get it. The links of ViewersLink are good for any number of browsers, and these can look at everything and do
// nothing. A request must name a loopback address, localhost, the address of Serve or one of Options.Hosts, which a
// window at all addresses of a machine needs; a websocket must come
// from our own page; the other requests change nothing. Pages allow no script, style or frame but their own.
//
// What programs, models and file names say is text: in parts of pages html/template escapes it, and screens are data that the script puts into
// text nodes.
//
// # Bounds
//
//	pages that are open            1,024, of which 896 may be viewers'; 16 answers of each wait at most
//	messages from a browser        64 KiB
//	browsers with a cookie         256, and 256 viewers; the oldest makes room
//	pages that are remembered      4,096 of those who may act; the one that has been left for longest makes room
//	links that nobody has used     64
//	processes of an overview       2,000; a search finds the others
//	time lines                     256 sessions
//	a browser that reads nothing   is left after 10 s, and one that answers nothing, after 40 s
//
// # Other sources
//
// [Of] makes the window of a [Source] that is no runtime, such as an exec-server: the sessions of its clients, their processes, with what each
// waits for and uses, the live screens, the output that is kept in memory and in files, with searches, and buttons for signals and the end. Nobody there decides, asks or
// records, and the input is the client's: such a window has no questions, approvals, time lines, keyboards, executions and recordings, and
// its pages do not mention them. What a process asks its terminal about the cursor is answered from the screen, too, if the client leaves the
// answers to the server, as a runtime does. A client that is a runtime can have a window of its own, with all of this.
//
// # What you must not assume
//
// That people with a link can be told apart: a browser with a cookie of the first kind can do all that the host can do to its sessions. That a
// viewer sees less: the output of commands may have secrets in it. That a loopback address keeps out other users of the machine: the links do,
// so print them where others do not read. That the plots are exact: a process that begins and ends between two looks is not in them.
package window
