package house

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// platformChecks are the commands of .ci/run on which the README's words about a platform rest.
var platformChecks = map[string]string{
	"amd64": "go test -vet=off ./...",
	"arm64": "env GOARCH=arm64 go vet ./...",
	"macOS": "env GOOS=darwin go vet ./...",
}

// platforms takes the first column out of the table in the README's section "Platforms".
func platforms(readme string) (rows []string) {
	_, section, _ := strings.Cut(readme, "\n## Platforms\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]*[^|\s]) +\|`).FindAllStringSubmatch(section, -1) {
		if row[1] != "platform" {
			rows = append(rows, row[1])
		}
	}
	return rows
}

// checkPlatforms complains about platforms of the README for which .ci/run does not even compile, and about those that it
// compiles for and the README does not have.
func checkPlatforms(repository fs.FS) ([]string, error) {
	readme, script, err := promised(repository)
	if err != nil {
		return nil, err
	}
	var complaints []string
	named := map[string]bool{}
	for _, row := range platforms(readme) {
		known := false
		for platform, command := range platformChecks {
			if !strings.Contains(row, platform) {
				continue
			}
			known, named[platform] = true, true
			if !calls(script, command) {
				complaints = append(complaints, fmt.Sprintf("README.md has the platform %q, and .ci/run has no %q", row, command))
			}
		}
		if !known {
			complaints = append(complaints, fmt.Sprintf("README.md has the platform %q, which nothing checks", row))
		}
	}
	for platform := range platformChecks {
		if !named[platform] {
			complaints = append(complaints, fmt.Sprintf("README.md says nothing about the platform %s", platform))
		}
	}
	return complaints, nil
}

func TestThePlatformsOfTheReadmeAreChecked(t *testing.T) { passes(t, checkPlatforms) }

func TestUncheckedPlatformsAreFound(t *testing.T) {
	script := "run a go test -vet=off ./...\nrun b env GOARCH=arm64 go vet ./...\n# run c env GOOS=darwin go vet ./...\n"
	const table = "# x\n\n## Platforms\n\n| platform | state |\n|---|---|\n| Linux, amd64 | tested |\n"
	finds(t, checkPlatforms, map[string]string{".ci/run": script,
		"README.md": table + "| macOS | compiles |\n| Plan 9 | good |\n\n## Next\n\n| Linux, arm64 | no |\n",
	}, `"macOS", and .ci/run has no`, `"Plan 9", which nothing checks`, "nothing about the platform arm64")
}
