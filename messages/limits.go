package messages

import (
	"fmt"
	"time"
)

// Limits bound what one command may use, with all processes that it starts. A zero field means no bound. If both the session
// and the command set a limit, the tighter one holds.
type Limits struct {
	OutputBytes int64         `json:"outputBytes,omitempty"` // of all streams together
	CPUTime     time.Duration `json:"cpuTimeNs,omitempty"`   // of all processors together
	WallTime    time.Duration `json:"wallTimeNs,omitempty"`  // from the start of the program
	MemoryBytes int64         `json:"memoryBytes,omitempty"`
	Processes   int           `json:"processes,omitempty"` // threads count as well
	OpenFiles   int           `json:"openFiles,omitempty"` // of one process
}

// Limit names one of the Limits.
type Limit string

// The limits.
const (
	LimitOutput    Limit = "output"
	LimitCPUTime   Limit = "cpu_time"
	LimitWallTime  Limit = "wall_time"
	LimitMemory    Limit = "memory"
	LimitProcesses Limit = "processes"
	LimitOpenFiles Limit = "open_files"
)

// limitNames are the names of the limits in sentences.
var limitNames = map[Limit]string{LimitOutput: "output", LimitCPUTime: "CPU time", LimitWallTime: "time", LimitMemory: "memory",
	LimitProcesses: "processes", LimitOpenFiles: "open files"}

// Set lists the limits that are not zero.
func (l Limits) Set() (set []Limit) {
	for _, one := range l.all() {
		if one.value != 0 {
			set = append(set, one.name)
		}
	}
	return set
}

type limitValue struct {
	name  Limit
	value int64
}

func (l Limits) all() [6]limitValue {
	return [...]limitValue{{LimitOutput, l.OutputBytes}, {LimitCPUTime, int64(l.CPUTime)}, {LimitWallTime, int64(l.WallTime)},
		{LimitMemory, l.MemoryBytes}, {LimitProcesses, int64(l.Processes)}, {LimitOpenFiles, int64(l.OpenFiles)}}
}

// Check returns an error for a negative limit.
func (l Limits) Check() error {
	for _, one := range l.all() {
		if one.value < 0 {
			return &Error{Code: ErrInvalidRequest, Op: "configure", Subject: "limit " + string(one.name),
				Detail: fmt.Sprintf("%d is negative; use a positive number, or 0 for no limit", one.value)}
		}
	}
	return nil
}

// Tighter combines two sets of limits: the tighter value of each.
func (l Limits) Tighter(other Limits) Limits {
	return Limits{OutputBytes: tighter(l.OutputBytes, other.OutputBytes), CPUTime: tighter(l.CPUTime, other.CPUTime),
		WallTime: tighter(l.WallTime, other.WallTime), MemoryBytes: tighter(l.MemoryBytes, other.MemoryBytes),
		Processes: tighter(l.Processes, other.Processes), OpenFiles: tighter(l.OpenFiles, other.OpenFiles)}
}

func tighter[T int | int64 | time.Duration](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
