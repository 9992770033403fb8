package wire

import "github.com/execbus/execbus/messages"

// Methods about the machine. The last five are extensions that a client may use without asking for them. A ptyio.Spawner and its
// Resolver need them.
const (
	EnvironmentInfo    = "environment/info"
	EnvironmentStatus  = "environment/status"
	EnvironmentMachine = "environment/machine"
	EnvironmentProgram = "environment/program"
	EnvironmentPath    = "environment/path"
	EnvironmentLeads   = "environment/leads"
	EnvironmentEnclose = "environment/enclose"
)

// InfoResult is the result of environment/info.
type InfoResult struct {
	Shell        Shell        `json:"shell"`
	Cwd          string       `json:"cwd,omitempty"` // these three are file: URIs
	UserHomeDir  string       `json:"userHomeDir,omitempty"`
	TempDir      string       `json:"tempDir,omitempty"`
	PlatformOS   string       `json:"platformOs,omitempty"`
	Capabilities Capabilities `json:"capabilities"`
}

// Shell is the shell of the user that commands run as.
type Shell struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// Capabilities are the server's optional abilities.
type Capabilities struct {
	NetworkProxyLaunch         bool `json:"networkProxyLaunch"`
	CapabilityDiscoverySandbox bool `json:"capabilityDiscoverySandbox"`
}

// StatusResult is the result of environment/status.
type StatusResult struct {
	Status string `json:"status"`
}

// Ready is the only status.
const Ready = "ready"

// MachineResult is the result of environment/machine.
type MachineResult struct {
	UserShell   string   `json:"userShell"`
	Environment []string `json:"environment"`
	TrustedDirs []string `json:"trustedDirs"`
	Name        string   `json:"name,omitempty"` // of the machine, always the same; empty if it is not known
}

// ProgramParams are the parameters of environment/program; ptyio.Resolver explains them.
type ProgramParams struct {
	Name string `json:"name"`
	Dir  string `json:"dir"`
	Path string `json:"path"`
}

// ProgramResult is the result of environment/program.
type ProgramResult struct {
	Path  string          `json:"path"`
	Error *messages.Error `json:"error,omitempty"`
}

// PathParams are the parameters of environment/path.
type PathParams struct {
	Path string `json:"path"`
}

// PathResult is the result of environment/path. Links are followed.
type PathResult struct {
	IsFile      bool `json:"isFile"`
	IsDirectory bool `json:"isDirectory"`
}

// LeadsResult is the result of environment/leads, whose parameters are PathParams; ptyio.Follower explains it.
type LeadsResult struct {
	Path string `json:"path"`
}

// EncloseParams are the parameters of environment/enclose, which looks up where the paths of a confinement lead. A later start in this
// session with an equal Sandbox is refused if the paths lead elsewhere by then.
type EncloseParams struct {
	Sandbox Sandbox          `json:"sandbox"`
	Limits  *messages.Limits `json:"limits,omitempty" strict:""`
}

// EncloseResult is the result of environment/enclose: the enforcement that a start would get, or the error by which it would be refused.
type EncloseResult struct {
	Enforced *messages.Enforcement `json:"enforced,omitempty"`
	Error    *messages.Error       `json:"error,omitempty"`
	Keeps    *Kept                 `json:"keeps,omitempty"`
}

// Kept are the absolute paths that a sandbox keeps from commands, each with everything below it. See ptyio.Keeper.
type Kept struct {
	Unwritable []string `json:"unwritable,omitempty"`
	Unreadable []string `json:"unreadable,omitempty"`
}
