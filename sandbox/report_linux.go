package sandbox

import (
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/sandbox/internal/tree"
)

func exitStatus(status tree.Status) messages.ExitStatus {
	switch status.Kind {
	case tree.Exited:
		return messages.Exited(status.Number)
	case tree.Signaled:
		return messages.Signaled(status.Number)
	default:
		return messages.NoStatus
	}
}

func treeReport(report tree.Report) messages.TreeReport {
	var survivors []messages.Survivor
	for _, s := range report.Survivors {
		survivors = append(survivors, messages.Survivor(s))
	}
	return messages.TreeReport{Ended: report.Ended, Survivors: survivors, Airtight: report.Airtight}
}
