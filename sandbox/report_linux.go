package sandbox

import (
	"syscall"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox/internal/tree"
)

func exitStatus(status tree.Status) messages.ExitStatus {
	switch status.Kind {
	case tree.Exited:
		return messages.StatusExited(status.Number)
	case tree.Signaled:
		return messages.StatusSignaled(syscall.Signal(status.Number))
	default:
		return messages.StatusNone()
	}
}

func treeReport(report tree.Report) messages.TreeReport {
	var survivors []messages.Survivor
	for _, s := range report.Survivors {
		survivors = append(survivors, messages.Survivor(s))
	}
	return messages.TreeReport{Ended: report.Ended, Survivors: survivors, Airtight: report.Airtight}
}
