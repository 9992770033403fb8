package tools

import (
	"fmt"
	"strings"

	"github.com/execbus/execbus/messages"
)

// advice tells a model what to do about an error, in one sentence each.
var advice = map[messages.ErrorCode]string{
	messages.ErrInvalidRequest:   "Correct the named argument and call again.",
	messages.ErrUnknownProcess:   "list_processes names the processes that there are.",
	messages.ErrProcessEnded:     "It takes no input any more; read_output still has its output for a while.",
	messages.ErrNoSuchProgram:    "Check its name and the PATH, or install it.",
	messages.ErrSpawnFailed:      "Nothing ran; check the working directory and the program's permissions.",
	messages.ErrStdinClosed:      "stdin is closed for this session; rerun exec_command with tty=true to keep stdin open.",
	messages.ErrLineTooLong:      "Send shorter lines, or have the program read the text from a file.",
	messages.ErrInputFull:        "Call write_stdin with empty chars until the process has read what waits, then send the rest.",
	messages.ErrInputNotTaken:    "The process does not read its input; call write_stdin with empty chars to see what it does.",
	messages.ErrNotATerminal:     "Only a process that was started with tty=true has a terminal.",
	messages.ErrWrongState:       "Call list_processes to see the state of the process, and call again when it runs.",
	messages.ErrUnsupported:      "This cannot be done here; find another way.",
	messages.ErrLimitReached:     "End a process that is not needed any more with terminate_process, then call again.",
	messages.ErrSlowSubscriber:   "Nothing is lost; read_output has the output.",
	messages.ErrCancelled:        "The call was cancelled and took no output; call again to go on waiting.",
	messages.ErrClosed:           "The session is over, and no command can be run in it.",
	messages.ErrWardenLost:       "The processes that it kept have ended; run the command again if that is safe.",
	messages.ErrRuntimeFailure:   "This is a failure of the tool and not of the command; try once more, then tell the user.",
	messages.ErrOutputUnretained: "Read what is kept: call read_output with an offset in one of the named ranges, or with tail.",
	messages.ErrRejected:         "Do not try to reach the same in another way; go on without it, or ask the user.",
	messages.ErrAborted:          "Stop here and wait for the user.",
	messages.ErrAlreadyResolved:  "The question has been answered, and there is nothing to do.",
	messages.ErrUnknownQuestion:  "There is no such question, and nothing to do.",
	messages.ErrAuditFailed:      "Nothing can be run until that is repaired; tell the user.",
	messages.ErrKeyboardTaken:    "A person types into it; call write_stdin with empty chars to see what happens, and write when they are done.",
	messages.ErrUnknownGrant:     "There is no such permission, and nothing to do.",
	messages.ErrUnreachable:      "The machine does not answer now; try again in a minute, then tell the user.",
	messages.ErrNodeLost:         "The machine and its processes are lost; run the command again in a new session if that is safe.",
}

// failure is the answer of a call that failed. tried is the name of the tool with the object of the call.
func failure(tried string, err error) Answer {
	e := typed(err)
	return advised(tried, e, advice[e.Code])
}

// refusal is the failure of a call for a command. If the machine cannot enforce the sandbox, only the user can accept less.
func (o Options) refusal(tried string, err error) Answer {
	e := typed(err)
	switch {
	case e.Enforceable == "":
		return failure(tried, err)
	case o.AssuranceSetting == "":
		return advised(tried, e, "Only the user can accept less; tell the user what is missing.")
	}
	return advised(tried, e, fmt.Sprintf("Only the user can accept less, with the server's setting %s %s; tell the user what is missing.", o.AssuranceSetting, e.Enforceable))
}

func advised(tried string, e *messages.Error, what string) Answer {
	return Answer{Text: fmt.Sprintf("%s failed: %s%s", tried, sentence(e.Error()), behind(what)), Err: e}
}

// misread is the answer if the arguments could not be understood.
func misread(err error) Answer {
	e := typed(err)
	return Answer{Text: fmt.Sprintf("failed to parse function arguments: %s: %s%s", e.Subject, sentence(e.Detail), behind(advice[e.Code])), Err: e}
}

// sentence ends a text with a full stop.
func sentence(text string) string {
	if strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

func behind(text string) string {
	if text == "" {
		return ""
	}
	return " " + text
}
