package messages

import "fmt"

// Words is how a process ended, as a predicate of "it" or "the process": "exited with code 0", "was terminated to
// make room for another command (signal 15)".
func (r *EndRecord) Words() string {
	if r.Cause == CauseExited || r.Cause == "" {
		return exitWords(r.Status, r.Detail)
	}
	return gone(r.Cause, onBehalf(r.By, r.Limit), r.Status, r.Detail)
}

// exitWords is for a leader that ended by itself; lost says why its status is unknown.
func exitWords(status ExitStatus, lost string) string {
	if code, known := status.Code(); known {
		return fmt.Sprintf("exited with code %d", code)
	}
	return "ended, its exit code is not known" + because(lost)
}

// gone is for a process that did not end by itself.
func gone(cause Cause, why string, status ExitStatus, detail string) string {
	switch cause {
	case CauseTerminated:
		return "was terminated " + why + last(status) + because(detail)
	case CauseSandboxDenied:
		return "was stopped by its sandbox" + last(status) + because(detail)
	case CauseSpawnFailed:
		return "could not be started" + because(detail)
	case CauseRejected, CauseAborted:
		return "was not allowed to run" + because(detail)
	case CauseNodeLost:
		return "was on a machine that is lost, and what became of it is not known" + because(detail)
	default:
		return "ended, its exit code is not known" + because(detail)
	}
}

// onBehalf says why a process was terminated.
func onBehalf(by TerminatedBy, limit Limit) string {
	switch by {
	case TerminatedByPrune:
		return "to make room for another command"
	case TerminatedBySessionClose:
		return "because its session was closed"
	case TerminatedByShutdown:
		return "because the host was shutting down"
	case TerminatedByOwner:
		return "because what it belonged to was ended"
	case TerminatedByTimeout:
		return "because its time was over"
	case TerminatedByLimit:
		if name, known := limitNames[limit]; known {
			return "because it went beyond its limit of " + name
		}
		return "because it went beyond a limit"
	default:
		return "on request"
	}
}

// last is the exit status of a terminated process's leader, in words.
func last(status ExitStatus) string {
	switch status.Kind {
	case ExitCode:
		return fmt.Sprintf(" (exit code %d)", status.Number)
	case ExitSignal:
		return fmt.Sprintf(" (signal %d)", status.Number)
	default:
		return ""
	}
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}
