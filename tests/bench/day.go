package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tools"
)

// step is what an agent does in one call. It starts commands, or types into the one that another step has named.
type step struct {
	kind string
	as   string   // the name of what is started, for later steps
	run  []string // scripts that are started, all at once
	to   string   // the command that is typed into
	keys string
	// ends is what is shown last, when the step has come to its end; empty if that is the exit. The oracle reads until then.
	ends  string
	until map[string]any // for an end that only the agent knows
}

// kindsOfSteps are the kinds, with how much later than the oracle a step may end. A server that has begun to listen is an answer only
// when nothing was printed for a while.
var kindsOfSteps = map[string]float64{"shell": defaultMore, "repl": defaultMore, "build": defaultMore, "test": defaultMore, "install": defaultMore, "password": defaultMore,
	"rebase": defaultMore, "jobs": defaultMore, "watcher": defaultMore, "server": millis(messages.ListenStill) + 60}

// day is the fixed list.
func day() []step {
	passed := func(n int) map[string]any { return map[string]any{"pattern": fmt.Sprintf(`run %d passed\n`, n)} }
	const prompt = "ready> "
	return []step{
		{kind: "shell", as: "sh", run: []string{"PS1='ready> ' exec bash --norc --noprofile -i"}, ends: prompt},
		{kind: "shell", to: "sh", keys: "export NAME=value; mkdir -p src && cd src\n", ends: prompt},
		{kind: "shell", to: "sh", keys: "echo $NAME-$(basename $PWD)\n", ends: "value-src\r\n" + prompt},
		{kind: "shell", to: "sh", keys: "for i in 1 2 3 4 5; do echo $i; sleep 0.1; done\n", ends: "5\r\n" + prompt},
		{kind: "shell", to: "sh", keys: "ls -la / | wc -l; ls /usr/bin | sort | head -n 50\n", ends: prompt},
		{kind: "shell", to: "sh", keys: "git init -q . && for i in 1 2 3; do git -c user.name=a -c user.email=a@b commit -q --allow-empty -m $i; done; git log --oneline | cat\n", ends: prompt},
		{kind: "rebase", to: "sh", keys: "GIT_EDITOR='vim -u NONE' git -c user.name=a -c user.email=a@b rebase -i --root\n", ends: vimEnds},
		{kind: "rebase", to: "sh", keys: ":wq\r", ends: prompt},
		{kind: "repl", as: "py", run: []string{"exec python3 -q"}, ends: ">>> "},
		{kind: "repl", to: "py", keys: "6*7\n", ends: "42\r\n>>> "},
		{kind: "repl", to: "py", keys: "import json, time; json.dumps({'a': [1, 2]})\n", ends: ">>> "},
		{kind: "repl", to: "py", keys: "time.sleep(0.5); print('sl' + 'ept')\n", ends: "slept\r\n>>> "},
		{kind: "repl", to: "py", keys: "exit()\n"},
		{kind: "build", run: []string{buildScript}},
		{kind: "build", run: []string{"cd c && touch f1.c && make -j2"}},
		{kind: "test", run: []string{testScript}},
		{kind: "test", run: []string{"cd c && make -s && ./prog && echo passed"}},
		{kind: "server", as: "server", run: []string{`exec python3 -c "
import socket, time
time.sleep(0.2)
s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()
print('ready on port', s.getsockname()[1], 'now', flush=True)
time.sleep(1000)"`}, ends: "now\r\n"},
		{kind: "server", to: "server", keys: "\x03"},
		{kind: "watcher", as: "watch", run: []string{`n=0; last=; while :; do now=$(cat watched 2>/dev/null); if [ "$now" != "$last" ] || [ $n = 0 ]; then n=$((n+1)); last=$now; sleep 0.2; echo run $n passed; fi; sleep 0.05; done`},
			ends: "run 1 passed\r\n", until: passed(1)},
		{kind: "shell", to: "sh", keys: "echo changed >../watched\n", ends: prompt},
		{kind: "watcher", to: "watch", ends: "run 2 passed\r\n", until: passed(2)},
		{kind: "watcher", to: "watch", keys: "\x03"},
		{kind: "install", as: "install", run: []string{`echo 'The following packages will be installed: it'; sleep 0.2; read -r -p 'Do you want to continue? [Y/n] ' x; for i in 1 2 3 4 5 6; do echo "unpacking $i"; sleep 0.15; done; echo installed`}, ends: "[Y/n] "},
		{kind: "install", to: "install", keys: "y\n"},
		{kind: "password", as: "password", run: []string{"read -r -s -p 'Password: ' x; sleep 0.2; echo; echo logged in"}, ends: "Password: "},
		{kind: "password", to: "password", keys: "secret\n"},
		{kind: "jobs", run: []string{"sleep 0.4; echo one", "for i in 1 2 3 4 5 6; do echo $i; sleep 0.1; done", "seq 20000 | sort -R | tail -n 1"}},
		{kind: "shell", to: "sh", keys: "git status --short | cat; echo $NAME\n", ends: "value\r\n" + prompt},
		{kind: "shell", to: "sh", keys: "exit\n"},
	}
}

const (
	// vimEnds is in the line in which vim says what it has opened; what it draws behind it does not count.
	vimEnds     = `git-rebase-todo"`
	buildScript = `mkdir -p c && cd c && for i in 1 2 3 4 5 6 7 8; do printf '#include <stdio.h>\n#include <string.h>\nint f%s(int x) { char s[99]; sprintf(s, "%%d", x); return strlen(s) + %s; }\n' $i $i >f$i.c; done
printf 'int f1(int);\nint main(void) { return f1(1) != 2; }\n' >main.c
printf 'prog: main.o f1.o f2.o f3.o f4.o f5.o f6.o f7.o f8.o\n\t$(CC) -o $@ $^\n%%.o: %%.c\n\t$(CC) -O2 -Wall -c $<\n' >Makefile; make -j2`
	testScript = `printf 'import time, unittest\nclass It(unittest.TestCase):\n  def test_a(self): time.sleep(0.4)\n  def test_b(self): time.sleep(0.4)\n  def test_c(self): pass\n' >test_it.py; python3 -m unittest -v`
)

func dayRows() []row {
	metrics := []metric{{name: "sum of calls, by that of the oracle", of: "ratio", unit: times, judge: most, limit: 1.3}, {name: "sum of calls", of: "sum", unit: milliseconds}}
	for _, kind := range slices.Sorted(maps.Keys(kindsOfSteps)) {
		metrics = append(metrics, metric{name: kind + ", the latest", of: kind, at: 1, unit: milliseconds, judge: most, limit: kindsOfSteps[kind]})
	}
	return []row{{name: "day", about: "30 steps of an agent through a server for MCP, beside an oracle that knows when each has come to its end", fresh: true, open: days,
		metrics: append(metrics, metric{name: "steps that needed another call", of: "again", unit: pieces})}}
}

// days lets the oracle and the agent take each step in turn, in directories of their own.
func days(ctx context.Context, s *scope) pair {
	server := s.mcp(ctx)
	oracle, agent := s.directory(), s.directory()
	bare, ids := map[string]*bareTerminal{}, map[string]int{}
	s.after(func() {
		for _, b := range bare {
			b.end()
		}
	})
	return pair{ours: func(ctx context.Context, took series) {
		var sums [2]time.Duration
		for _, one := range day() {
			must(ctx.Err())
			began := time.Now()
			one.byOracle(oracle, bare)
			known := time.Since(began)
			began = time.Now()
			again := one.byAgent(server, agent, ids)
			took.add("again", float64(again))
			late := time.Since(began)
			sums[0], sums[1] = sums[0]+known, sums[1]+late
			took.add(one.kind, millis(late-known))
			if os.Getenv("BENCH_STEPS") != "" {
				fmt.Fprintf(os.Stderr, "%-9s %7.1f ms, oracle %7.1f ms, %d more calls: %.60q\n", one.kind, millis(late), millis(known), again, one.keys+strings.Join(one.run, "; "))
			}
		}
		took["again"] = []float64{sum(took["again"])}
		took.add("sum", millis(sums[1]))
		took.add("ratio", sums[1].Seconds()/sums[0].Seconds())
	}}
}

func sum(values []float64) (all float64) {
	for _, v := range values {
		all += v
	}
	return all
}

// byOracle takes the step bare.
func (one step) byOracle(dir string, bare map[string]*bareTerminal) {
	var started []*bareTerminal
	for _, script := range one.run {
		started = append(started, bareStartIn(dir, []string{"bash", "-c", script}, append(os.Environ(), "TERM=dumb")))
	}
	if one.to != "" {
		started = []*bareTerminal{bare[one.to]}
		get(started[0].file.WriteString(one.keys))
	}
	for _, b := range started {
		switch one.ends {
		case "":
			b.untilEnd()
		case vimEnds:
			b.untilShown(vimEnds)
		default:
			b.until(one.ends)
		}
	}
	if one.as != "" {
		bare[one.as] = started[0]
	}
	if one.ends == "" {
		delete(bare, one.to)
	}
}

// byAgent takes it with calls that do not say what they wait for, unless only the agent knows. It returns how many more calls it took.
func (one step) byAgent(server *mcp, dir string, ids map[string]int) (again int) {
	var outcomes []tools.Outcome
	var calls []map[string]any
	name := tools.ExecCommand
	for _, script := range one.run {
		calls = append(calls, map[string]any{"cmd": script, "workdir": dir, "shell": "bash", "login": false, "tty": true})
	}
	if one.to != "" {
		name, calls = tools.WriteStdin, []map[string]any{{"session_id": ids[one.to], "chars": one.keys}}
	}
	if one.until != nil {
		calls[0]["until"], calls[0]["yield_time_ms"] = one.until, messages.MaxYield.Milliseconds()
	}
	outcomes = get(server.tools(name, calls))
	for _, o := range outcomes {
		shown := o.Output
		for began := time.Now(); !one.over(o, shown); again++ {
			if time.Since(began) > patience || o.SessionID == nil {
				must(fmt.Errorf("a step of the day did not end: %q%q: %s, %q", one.run, one.keys, o.State, shown))
			}
			o = get(server.tool(tools.WriteStdin, map[string]any{"session_id": *o.SessionID}))
			shown += o.Output
		}
		if one.as != "" {
			ids[one.as] = *o.SessionID
		}
	}
	return again
}

// over reports whether a step has come to its end.
func (one step) over(o tools.Outcome, shown string) bool {
	switch one.ends {
	case "":
		return o.SessionID == nil
	case vimEnds:
		return strings.Contains(shown, vimEnds)
	default:
		return strings.HasSuffix(shown, one.ends)
	}
}

// tools calls a tool several times at once.
func (m *mcp) tools(name string, all []map[string]any) ([]tools.Outcome, error) {
	if len(all) == 1 {
		o, err := m.tool(name, all[0])
		return []tools.Outcome{o}, err
	}
	first := m.id + 1
	for _, arguments := range all {
		m.id++
		params, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m.id, "method": "tools/call", "params": map[string]any{"name": name, "arguments": arguments}})
		if err != nil {
			return nil, err
		}
		if _, err := m.in.Write(append(params, '\n')); err != nil {
			return nil, err
		}
	}
	outcomes := make([]tools.Outcome, len(all))
	for left := len(all); left > 0; {
		text, err := m.out.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		var answer struct {
			ID     int
			Result struct{ StructuredContent tools.Outcome }
		}
		if err := json.Unmarshal(text, &answer); err != nil {
			return nil, err
		}
		if answer.ID >= first && answer.ID <= m.id {
			outcomes[answer.ID-first] = answer.Result.StructuredContent
			left--
		}
	}
	return outcomes, nil
}

// untilShown reads until the program has shown a text.
func (b *bareTerminal) untilShown(text string) {
	b.read(func() bool { return bytes.Contains(b.shown, []byte(text)) })
}

// untilEnd reads until the program has ended.
func (b *bareTerminal) untilEnd() {
	must(b.file.SetReadDeadline(time.Now().Add(patience)))
	for buffer := make([]byte, batch); ; {
		if _, err := b.file.Read(buffer); os.IsTimeout(err) {
			must(fmt.Errorf("%q does not end", b.cmd.Args))
		} else if err != nil { // EIO is the end
			_ = b.file.Close()
			_ = b.cmd.Wait()
			return
		}
	}
}
