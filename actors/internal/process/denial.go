package process

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
	"github.com/execbus/execbus/sandbox/denial"
)

// earlyDenial is how long a command may have run if it is to be retried without a question after a denial that only its
// output shows. A command that ran longer may have had effects.
const earlyDenial = 150 * time.Millisecond

// denialOf reports whether the sandbox of the attempt stopped it, going by the spawner or else by the kernel's report and
// the output. Nil means that it did not.
func (p *process) denialOf(e ptyio.Exited) *messages.Denial {
	if e.Denial != nil {
		return e.Denial
	}
	c, d := p.decision.launch.Sandbox.Confinement(), p.decision
	rules := denial.RulesOf(c.Policy, c.Dir, c.TempDir, c.Additional, c.AdditionalDir)
	for _, variable := range d.launch.Env {
		if home, found := strings.CutPrefix(variable, "HOME="); found {
			rules.Home = filepath.Clean(home)
		}
	}
	return denial.Of(denial.Facts{
		Status:  e.Status,
		Output:  p.output.Log.Transcript(ptyio.DefaultBufferSize), // only a first attempt is confined, so all output is its own
		Dir:     d.launch.Dir,
		Command: d.launch.Argv,
		Rules:   rules,
	})
}
