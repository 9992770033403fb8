package wire

import "github.com/execbus/execbus/messages"

// Methods about the machine. The last four are extensions that need not be asked for: a ptyio.Spawner and its Resolver need them.
const (
	EnvironmentInfo    = "environment/info"
	EnvironmentStatus  = "environment/status"
	EnvironmentMachine = "environment/machine"
	EnvironmentProgram = "environment/program"
	EnvironmentPath    = "environment/path"
	EnvironmentEnclose = "environment/enclose"
)

// InfoResult is that of environment/info.
type InfoResult struct {
	Shell        Shell        `json:"shell"`
	Cwd          string       `json:"cwd,omitempty"` // a file: URI
	Capabilities Capabilities `json:"capabilities"`
}

// Shell is the shell of the user as whom commands run.
type Shell struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// Capabilities are what the server can do besides.
type Capabilities struct {
	NetworkProxyLaunch         bool `json:"networkProxyLaunch"`
	CapabilityDiscoverySandbox bool `json:"capabilityDiscoverySandbox"`
}

// StatusResult is that of environment/status.
type StatusResult struct {
	Status string `json:"status"`
}

// Ready is the only status there is.
const Ready = "ready"

// MachineResult is that of environment/machine.
type MachineResult struct {
	UserShell   string   `json:"userShell"`
	Environment []string `json:"environment"`
	TrustedDirs []string `json:"trustedDirs"`
}

// ProgramParams are those of environment/program; ptyio.Resolver says what they mean.
type ProgramParams struct {
	Name string `json:"name"`
	Dir  string `json:"dir"`
	Path string `json:"path"`
}

// ProgramResult is that of environment/program.
type ProgramResult struct {
	Path  string          `json:"path"`
	Error *messages.Error `json:"error,omitempty"`
}

// PathParams are those of environment/path.
type PathParams struct {
	Path string `json:"path"`
}

// PathResult is that of environment/path. Links are followed.
type PathResult struct {
	IsFile      bool `json:"isFile"`
	IsDirectory bool `json:"isDirectory"`
}

// EncloseParams are those of environment/enclose, which looks up where the paths of a confinement lead. Later starts in this
// session with an equal Sandbox are refused if they lead elsewhere.
type EncloseParams struct {
	Sandbox Sandbox          `json:"sandbox" strict:""`
	Limits  *messages.Limits `json:"limits,omitempty" strict:""`
}

// EncloseResult is that of environment/enclose: what would be enforced, or why a start would be refused.
type EncloseResult struct {
	Enforced *messages.Enforcement `json:"enforced,omitempty"`
	Error    *messages.Error       `json:"error,omitempty"`
}
