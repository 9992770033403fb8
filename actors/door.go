package actors

import (
	"context"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/execbus/execbus/actors/internal/output"
	"github.com/execbus/execbus/actors/internal/patching"
	"github.com/execbus/execbus/actors/internal/protocol"
	"github.com/execbus/execbus/actors/internal/shared"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// What a runtime is started with and a session is opened with.
type (
	Dependencies  = shared.Dependencies
	SessionConfig = shared.SessionConfig
	Telemetry     = shared.Telemetry
)

// How patches are applied: see Dependencies.Patches.
type (
	Patches           = shared.Patches
	Patch             = shared.Patch
	PatchPlan         = shared.PatchPlan
	PatchJob          = shared.PatchJob
	BeginPatchProgram = shared.BeginPatchProgram
)

// How the commands of a session reach named hosts: see Dependencies.NewNetwork.
type (
	Network        = shared.Network
	NetworkOptions = shared.NetworkOptions
)

// Where output is kept that logs drop: see Dependencies.Spools.
type (
	SpoolFile = output.SpoolFile
	Memory    = output.Memory
	Found     = output.Found
)

// RecoverPatches settles what hosts that were killed have left of patches. It returns a sentence for each patch that is settled now; the
// error says which are not, or why that is not known.
func RecoverPatches(ctx context.Context, d *Dependencies) ([]string, error) {
	return patching.Recover(ctx, d.WithDefaults())
}

// Requests to a session beside those of package messages; see package protocol.
type (
	CancelWait      = protocol.CancelWait
	StartCommand    = protocol.StartCommand
	TerminateAll    = protocol.TerminateAll
	EndOwner        = protocol.EndOwner
	ListProcesses   = protocol.ListProcesses
	DescribeProcess = protocol.DescribeProcess
	ListExecutions  = protocol.ListExecutions
	PauseYields     = protocol.PauseYields
	ResumeYields    = protocol.ResumeYields
	ListQuestions   = protocol.ListQuestions
	ListGrants      = protocol.ListGrants
	ResolveDir      = protocol.ResolveDir
	CloseSession    = protocol.CloseSession
	Done            = protocol.Done
)

// NewTelemetry makes the instruments; the host's code may take long for that. The functions that submit gets must be
// called later, in order and one at a time; submit may also drop them.
func NewTelemetry(meters metric.MeterProvider, tracers trace.TracerProvider, submit func(func())) (*Telemetry, error) {
	return shared.NewTelemetry(meters, tracers, submit)
}

// Confinement returns the confinement of a session, which the spawner has to look up. base is the environment of the host, never
// that of a command. Protected are paths that no command may change.
func Confinement(policy messages.SandboxPolicy, least messages.Assurance, dir string, base, protected []string) ptyio.Confinement {
	return shared.Confinement(policy, least, dir, base, protected)
}
