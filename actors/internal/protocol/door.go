package protocol

import "github.com/execbus/execbus/messages"

// Requests beside those of package messages: those without arguments, and those about the calls themselves.
type (
	// CancelWait cancels a waiting call. The call is then answered once: with its result if that was decided already,
	// or else with messages.ErrCancelled, and then it has taken no output. A running process goes on.
	CancelWait struct {
		Waiter string // the name of the actor that waits for the answer
	}
	// StartCommand asks for one command to be run. It is answered once: with a *messages.Result when the program runs,
	// which has no output, or with an error. Yield has no effect.
	StartCommand struct{ messages.ExecCommand }
	// TerminateAll ends all processes that a session has when it comes. It is answered with Done when they have ended; it
	// does not wait for later ones.
	TerminateAll struct{ By messages.TerminatedBy }
	// EndOwner ends all processes that an owner has when it comes, and cancels its waiting calls and its patches. It is
	// answered with Done when they have ended. An empty owner has none.
	EndOwner struct{ Owner string }
	// ListProcesses asks for the processes of a session and what each waits for, or with Records for the ended ones, too, but not for
	// that. It is answered with messages.Processes.
	ListProcesses struct{ Records bool }
	// DescribeProcess asks for one process, even if it has ended, as long as it is remembered. It is answered with a
	// messages.ProcessInfo, or an error.
	DescribeProcess struct{ Process messages.ProcessID }
	// ListExecutions asks what the tree of a process has executed so far. It is answered with a *messages.Executions.
	ListExecutions struct{ Process messages.ProcessID }
	// PauseYields and ResumeYields stop the deadlines of all waiting calls of a session, and let them go on with the time
	// they had left. Pauses nest. An exit still answers at once. Both are answered with Done.
	PauseYields  struct{}
	ResumeYields struct{}
	// ListQuestions asks for the questions of a session that wait for an answer. It is answered with messages.Questions.
	ListQuestions struct{}
	// ResolveDir asks for the absolute path of a directory, which may be relative to the session's directory. It is answered
	// with the path, as a string. The directory need not exist.
	ResolveDir struct{ Dir string }
	// CloseSession asks a session to end every process and then itself. It is answered with Done.
	CloseSession struct{ By messages.TerminatedBy }
	// ListGrants lists the grants of a session. It is answered with messages.Grants.
	ListGrants struct{}
	// Done answers requests that need no other answer.
	Done struct{}
)
