package house

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"testing"
)

// apache2 is the checksum of https://www.apache.org/licenses/LICENSE-2.0.txt, as it is published.
const apache2 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"

// papers are the files that a newcomer looks for first.
var papers = []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}

func checkPapers(repository fs.FS) ([]string, error) {
	license, err := fs.ReadFile(repository, "LICENSE")
	if err != nil {
		return nil, err
	}
	var complaints []string
	if sum := sha256.Sum256(license); hex.EncodeToString(sum[:]) != apache2 {
		complaints = append(complaints, "LICENSE is not the Apache License 2.0 as it is published")
	}
	for _, name := range papers {
		if text, err := fs.ReadFile(repository, name); err != nil || len(text) == 0 {
			complaints = append(complaints, fmt.Sprintf("there is no %s", name))
		}
	}
	return complaints, nil
}

func TestThePapersAreThere(t *testing.T) { passes(t, checkPapers) }

func TestOtherPapersAreFound(t *testing.T) {
	finds(t, checkPapers, map[string]string{"LICENSE": "Do as you like.\n", "README.md": "# x\n", "SECURITY.md": "", "CHANGELOG.md": "# x\n"},
		"LICENSE is not", "no SECURITY.md", "no CONTRIBUTING.md")
}
