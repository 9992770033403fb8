package cost

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// cost is what a program costs.
type cost struct {
	megabytes, stripped float64 // of the binary, with and without symbols
	packages            int
	initialisers        float64 // in milliseconds, which no test judges: they depend on the machine and on what else it does
	kilobytes           float64 // that the initialisers allocate
}

// measured builds a program and runs it.
func measured(t *testing.T, name string) (c cost, said string) {
	dir, pkg := t.TempDir(), "./"+name
	c.megabytes, c.stripped = build(t, pkg, filepath.Join(dir, name)), build(t, pkg, filepath.Join(dir, "stripped"), "-ldflags=-s -w")
	c.packages = len(strings.Fields(command(t, "go", "list", "-deps", pkg)))
	program := exec.Command(filepath.Join(dir, name))
	program.Env = environment("GODEBUG=inittrace=1")
	var trace strings.Builder
	program.Stderr = &trace
	out, err := program.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, trace.String())
	}
	for _, line := range regexp.MustCompile(`(?m)^init .* ([\d.]+) ms clock, (\d+) bytes`).FindAllStringSubmatch(trace.String(), -1) {
		c.initialisers += number(t, line[1])
		c.kilobytes += number(t, line[2]) / 1000
	}
	return c, string(out)
}

// environment is the caller's with these variables, and without those that change what is measured.
func environment(variables ...string) []string {
	var kept []string
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "LC_") && !slices.Contains([]string{"GOROOT", "GODEBUG", "GOEXPERIMENT", "GOOS", "GOARCH", "PWD", "LANG", "LANGUAGE"}, name) {
			kept = append(kept, variable)
		}
	}
	return append(kept, variables...)
}

func build(t *testing.T, pkg, binary string, flags ...string) (megabytes float64) {
	command(t, "go", append(append([]string{"build", "-trimpath", "-o", binary}, flags...), pkg)...)
	info, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	return float64(info.Size()) / 1e6
}

func command(t *testing.T, name string, args ...string) string {
	cmd := exec.Command(name, args...)
	cmd.Env = environment("CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOAMD64=v1", "GOWORK=off") // without flags there, go takes those of go env -w
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func number(t *testing.T, text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// row returns the two numbers of a row of the README's table: for a program with os/exec, and for one with execbus.
func row(t *testing.T, readme, about string) (plain, embedded float64) {
	found := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(about) + ` \| ([\d.]+)[^|]*\| ([\d.]+)`).FindStringSubmatch(readme)
	if found == nil {
		t.Fatalf("the README has no row %q", about)
	}
	return number(t, found[1]), number(t, found[2])
}

func TestTheReadmeSaysWhatImportingCosts(t *testing.T) {
	for name, value := range map[string]string{"GOFLAGS": "-tags=netgo -ldflags=-s", "GOROOT": "/does/not/exist", "GODEBUG": "gctrace=1", "GOAMD64": "v3",
		"PWD": "/", "LC_ALL": "de_DE.UTF-8", "GOWORK": "/does/not/exist"} { // the caller's environment does not matter
		t.Setenv(name, value)
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the README's numbers are those of linux/amd64")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("skipped: ", err)
	}
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(text)
	plain, _ := measured(t, "plain")
	embedded, said := measured(t, "embedded")
	t.Logf("os/exec: %+v, execbus: %+v", plain, embedded)
	for about, real := range map[string][2]float64{
		"binary":                     {plain.megabytes, embedded.megabytes},
		"binary without symbols":     {plain.stripped, embedded.stripped},
		"packages":                   {float64(plain.packages), float64(embedded.packages)},
		"memory of its initialisers": {plain.kilobytes, embedded.kilobytes},
	} {
		one, other := row(t, readme, about)
		for name, pair := range map[string][2]float64{"os/exec": {one, real[0]}, "execbus": {other, real[1]}} {
			if ratio := pair[1] / pair[0]; ratio < 0.9 || ratio > 1.1 {
				t.Errorf("%s with %s: the README says %v, and it is %.1f", about, name, pair[0], pair[1])
			}
		}
	}
	row(t, readme, "time of its initialisers")
	if !strings.Contains(said, "hello\n") {
		t.Errorf("the program printed %q", said)
	}
	has, told := strings.Contains(said, "/debug/vars"), strings.Contains(readme, "`/debug/vars`")
	if has != told {
		t.Errorf("the default mux has /debug/vars: %v; the README mentions it: %v", has, told)
	}
}
