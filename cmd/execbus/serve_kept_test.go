package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// numbers is what "seq 300000" prints: more than the server keeps in memory.
var numbers = func() string {
	var text []byte
	for n := int64(1); n <= 300_000; n++ {
		text = append(strconv.AppendInt(text, n, 10), '\n')
	}
	return string(text)
}()

// serveCount launches a server on standard input and output, which runs "seq 300000" to its end.
func serveCount(t *testing.T, arguments ...string) *running {
	t.Helper()
	r := launch(t, append([]string{"serve", "--listen", "stdio"}, arguments...)...)
	r.out.Buffer(nil, 8<<20)
	r.call("1", "initialize", `{"clientName":"test"}`)
	r.send(`{"method":"initialized"}`)
	r.call("2", "process/start", `{"processId":"p","argv":["seq","300000"],"cwd":"/","env":{"PATH":"/usr/bin:/bin"},"tty":false}`)
	for !strings.Contains(r.line(), "process/closed") {
	}
	return r
}

// kept reads the output of that process, page by page.
func (r *running) kept() string {
	r.t.Helper()
	var text strings.Builder
	for after := uint64(0); ; {
		var answer struct {
			Result struct {
				Chunks  []struct{ Chunk []byte }
				NextSeq uint64
			}
		}
		line := r.call("3", "process/read", `{"processId":"p","afterSeq":`+strconv.FormatUint(after, 10)+`,"maxBytes":500000}`)
		if err := json.Unmarshal([]byte(line), &answer); err != nil {
			r.t.Fatal(err)
		}
		if len(answer.Result.Chunks) == 0 {
			return text.String()
		}
		for _, chunk := range answer.Result.Chunks {
			text.Write(chunk.Chunk)
		}
		after = answer.Result.NextSeq - 1
	}
}

// All output can be read, although memory has only the newest part, and beyond the quota the middle is missing. A server that is killed
// leaves none of it, and the next one removes what is left.
func TestServeKeepsOutput(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	output := filepath.Join(os.Getenv("XDG_STATE_HOME"), "execbus", "output")
	r := serveCount(t)
	if text := r.kept(); text != numbers || r.errors.Len() > 0 {
		t.Errorf("%d bytes of %d, %s", len(text), len(numbers), r.errors.String())
	}
	if info, err := os.Stat(output); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if runtime.GOOS == "linux" && !opens(r.c.Process.Pid, output) {
		t.Error("no file in the directory is open")
	}
	_ = r.c.Process.Kill()
	_ = r.c.Wait()
	if left, err := os.ReadDir(output); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	name := filepath.Join(output, "output-1") // as of one that was killed before it had removed the name
	if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := serveCount(t, "--output-quota", "1M").kept()
	if first, last := 400_000, 700_000; len(text) < first+last || len(text) >= len(numbers) || text[:first] != numbers[:first] ||
		!strings.HasSuffix(numbers, text[len(text)-last:]) {
		t.Errorf("with a quota: %d bytes of %d", len(text), len(numbers))
	}
	if _, err := os.Stat(name); err == nil {
		t.Error("what was left is still there")
	}
}

// opens reports whether a process has opened a file in a directory.
func opens(pid int, dir string) bool {
	descriptors, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
	for _, name := range descriptors {
		if target, err := os.Readlink(name); err == nil && strings.HasPrefix(target, dir+"/") {
			return true
		}
	}
	return false
}

// A server that is told to keep no files, by a flag or a variable, keeps none. Without a place for them it says so and goes on, unless they were
// asked for.
func TestServeKeepsOnlyTheNewestOutputWithoutFiles(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	newest := func(says string, arguments ...string) {
		t.Helper()
		r := serveCount(t, arguments...)
		if text := r.kept(); len(text) > 1<<20 || len(text) < 1<<19 || !strings.HasSuffix(numbers, text) {
			t.Errorf("%q: %d bytes", arguments, len(text))
		}
		if err := r.in.Close(); err != nil || r.wait() != 0 {
			t.Errorf("%q: %v, %s", arguments, err, r.errors.String())
		}
		if said := r.errors.String(); !strings.Contains(said, says) || says == "" && said != "" { // all of it has been read with the end
			t.Errorf("%q: %s", arguments, said)
		}
	}
	newest("", "--no-keep-output")
	t.Setenv("EXECBUS_KEEP_OUTPUT", "false")
	newest("")
	if _, err := os.Stat(filepath.Join(os.Getenv("XDG_STATE_HOME"), "execbus", "output")); err == nil {
		t.Error("there is a directory for output")
	}
	_ = os.Unsetenv("EXECBUS_KEEP_OUTPUT") // the test's end restores it
	t.Setenv("XDG_STATE_HOME", "/dev/null/state")
	newest("only the newest output of commands is kept")
	if _, said, code := program(t, "serve", "--listen", "stdio", "--keep-output"); code != exitFailed || !strings.Contains(said, "/dev/null") {
		t.Errorf("exit code %d, %s", code, said)
	}
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "")
	if _, said, code := program(t, "serve", "--listen", "stdio", "--keep-output"); code != exitFailed || !strings.Contains(said, "no home directory") {
		t.Errorf("without a home: exit code %d, %s", code, said)
	}
}
