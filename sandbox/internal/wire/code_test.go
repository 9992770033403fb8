package wire

import (
	"reflect"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/execbus/execbus/sandbox/internal/confine"
	"github.com/execbus/execbus/sandbox/internal/executions"
	"github.com/execbus/execbus/sandbox/internal/tree"
)

var words = rapid.SliceOfN(rapid.String(), 0, 4)

// some draws nothing or something.
func some[T any](t *rapid.T, name string, draw func() T) *T {
	if !rapid.Bool().Draw(t, name) {
		return nil
	}
	value := draw()
	return &value
}

var rules = rapid.Custom(func(t *rapid.T) confine.Rule {
	return confine.Rule{Path: rapid.String().Draw(t, "path"), Access: confine.Access(rapid.IntRange(0, 2).Draw(t, "access")),
		Device: rapid.Uint64().Draw(t, "device"), Inode: rapid.Uint64().Draw(t, "inode"), Directory: rapid.Bool().Draw(t, "directory"), Link: rapid.String().Draw(t, "link"),
		IfThere: rapid.Bool().Draw(t, "ifThere"),
		File:    rapid.Int().Draw(t, "file")}
})

var seen = rapid.Custom(func(t *rapid.T) executions.Execution {
	return executions.Execution{PID: rapid.Int().Draw(t, "pid"), Program: rapid.String().Draw(t, "program"), Argv: words.Draw(t, "argv")}
})

func drawRequest(t *rapid.T) *Request {
	return &Request{ID: rapid.Uint64().Draw(t, "id"),
		Start: some(t, "start", func() Start {
			return Start{Program: rapid.String().Draw(t, "program"), Argv: words.Draw(t, "argv"), Env: words.Draw(t, "env"),
				Dir: rapid.String().Draw(t, "dir"), Plan: rapid.Uint64().Draw(t, "plan"), Level: confine.Confined, Ruleset: rapid.Int().Draw(t, "ruleset"), TTY: rapid.Bool().Draw(t, "tty"), Keep: rapid.Bool().Draw(t, "keep"),
				Grace: time.Duration(rapid.Int64().Draw(t, "grace")), Files: rapid.Int().Draw(t, "files"),
				Tasks: rapid.Int().Draw(t, "tasks"), FDs: rapid.SliceOf(rapid.Int()).Draw(t, "fds"), Groups: rapid.SliceOf(rapid.Int()).Draw(t, "groups"),
				Rlimits:    rapid.SliceOf(rapid.Make[tree.Rlimit]()).Draw(t, "limits"),
				Executions: some(t, "executions", func() executions.Wanted { return executions.Wanted{Names: words.Draw(t, "names"), All: true} })}
		}),
		Signal: some(t, "signal", func() Signal {
			return Signal{Number: syscall.Signal(rapid.Int().Draw(t, "number")), Group: rapid.Int().Draw(t, "group")}
		}),
		End: some(t, "end", func() End { return End{Grace: time.Duration(rapid.Int64().Draw(t, "grace"))} }),
		Register: some(t, "register", func() Register {
			return Register{Files: rapid.Int().Draw(t, "files"), Ruleset: rapid.Int().Draw(t, "ruleset"), Plan: confine.Plan{Network: rapid.Bool().Draw(t, "network"),
				Rules: rapid.SliceOfN(rules, 0, 3).Draw(t, "rules"), Sockets: rapid.SliceOfN(rules, 0, 3).Draw(t, "sockets")}}
		}),
		Withdraw: some(t, "withdraw", func() Withdraw { return Withdraw{} }),
		Judged:   some(t, "judged", func() Judged { return Judged{rapid.Uint64().Draw(t, "number"), executions.Later} })}
}

func drawReply(t *rapid.T) *Reply {
	survivor := rapid.Custom(func(t *rapid.T) tree.Survivor {
		return tree.Survivor{PID: rapid.Int().Draw(t, "pid"), Name: rapid.String().Draw(t, "name"), Why: rapid.String().Draw(t, "why")}
	})
	return &Reply{ID: rapid.Uint64().Draw(t, "id"), Left: rapid.Int().Draw(t, "left"),
		Hello: some(t, "hello", func() Hello {
			return Hello{rapid.Uint64().Draw(t, "time"), rapid.Uint64().Draw(t, "locks"), rapid.Uint64().Draw(t, "nonce")}
		}),
		Started: some(t, "started", func() Started {
			return Started{rapid.Int().Draw(t, "pid"), rapid.Uint64().Draw(t, "mark"), confine.Isolated,
				rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "unshared")}
		}),
		Failed: some(t, "failed", func() Failed {
			return Failed{syscall.Errno(rapid.Uint32().Draw(t, "errno")), rapid.String().Draw(t, "step")}
		}),
		Exited: some(t, "exited", func() tree.Status { return tree.Status{Kind: tree.Exited, Number: rapid.Int().Draw(t, "code")} }),
		Ended: some(t, "ended", func() tree.Report {
			return tree.Report{Ended: rapid.Int().Draw(t, "ended"), Survivors: rapid.SliceOfN(survivor, 0, 3).Draw(t, "survivors"),
				Airtight: rapid.Bool().Draw(t, "airtight")}
		}),
		Execution: some(t, "execution", func() Execution { return Execution{rapid.Uint64().Draw(t, "number"), seen.Draw(t, "execution")} }),
		Settled: some(t, "settled", func() Settled {
			return Settled{rapid.Uint64().Draw(t, "number"), executions.Fate(rapid.Int().Draw(t, "fate"))}
		}),
		Seen: some(t, "seen", func() Seen {
			return Seen{rapid.SliceOfN(seen, 0, 3).Draw(t, "batch"), rapid.Int().Draw(t, "dropped")}
		})}
}

// checkCoded compares the message that was read with the one that was written; a list may come back nil instead of empty.
func checkCoded(t *rapid.T, written, read Message) {
	out := coder{}
	written.code(&out)
	in := coder{bytes: out.bytes, reading: true}
	read.code(&in)
	again := coder{}
	read.code(&again)
	if in.bad || len(in.bytes) > 0 || !reflect.DeepEqual(out.bytes, again.bytes) {
		t.Fatalf("%+v was read as %+v, %d bytes left", written, read, len(in.bytes))
	}
	// Every beginning of it is recognised as cut off, and arbitrary other bytes cause no panic.
	cut := rapid.IntRange(0, len(out.bytes)-1).Draw(t, "cut")
	in = coder{bytes: out.bytes[:cut], reading: true}
	reflect.New(reflect.TypeOf(read).Elem()).Interface().(Message).code(&in)
	if !in.bad {
		t.Fatalf("%d of %d bytes were taken for the whole", cut, len(out.bytes))
	}
}

func TestMessagesAreReadAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request := drawRequest(t)
		var read Request
		checkCoded(t, request, &read)
		if request.ID != read.ID || (request.Start == nil) != (read.Start == nil) {
			t.Fatalf("%+v was read as %+v", request, read)
		}
	})
	rapid.Check(t, func(t *rapid.T) { checkCoded(t, drawReply(t), &Reply{}) })
}

var somewhere = confine.Rule{Path: "p", Access: confine.Read, Device: 1, Inode: 1, Directory: true, Link: "p", IfThere: true, File: 1}

var executed = executions.Execution{PID: 1, Parent: 1, Program: "p", Resolved: "r", Argv: []string{"a"}, Cut: true, Dir: "d", Unread: "u"}

func TestEveryFieldIsWritten(t *testing.T) {
	for _, message := range []Message{
		&Request{ID: 1, Start: &Start{"p", []string{"a"}, []string{"e"}, "d", true, true, 1, 1, 1, []int{1}, []int{1}, []tree.Rlimit{{Resource: 1, Soft: 1, Hard: 1}}, 1, 1, confine.Confined, 1,
			&executions.Wanted{Names: []string{"n"}, All: true, Judge: true, Report: true}},
			Register: &Register{confine.Plan{Network: true, Proxied: true, Rules: []confine.Rule{somewhere}, Sockets: []confine.Rule{somewhere}}, 1, 1},
			Withdraw: &Withdraw{}, Signal: &Signal{1, 1}, End: &End{1}, Judged: &Judged{1, executions.Allow}},
		&Reply{1, &Hello{1, 1, 1}, &Started{1, 1, confine.Confined, []string{"a"}}, &Failed{1, "a"}, &tree.Status{Kind: 1, Number: 1}, 1,
			&tree.Report{Ended: 1, Survivors: []tree.Survivor{{PID: 1, Name: "n", Why: "w"}}, Airtight: true}, &Listening{3, true},
			&Execution{1, executed}, &Settled{1, executions.Late}, &Seen{[]executions.Execution{executed}, 1}},
	} {
		checkSet(t, reflect.ValueOf(message).Elem())
		out := coder{}
		message.code(&out)
		read := reflect.New(reflect.TypeOf(message).Elem())
		read.Interface().(Message).code(&coder{bytes: out.bytes, reading: true})
		if !reflect.DeepEqual(message, read.Interface()) {
			t.Errorf("%+v was read as %+v", message, read)
		}
	}
}

// checkSet fails if somebody adds a field that this test does not know.
func checkSet(t *testing.T, v reflect.Value) {
	t.Helper()
	for i := range v.NumField() {
		if field := v.Field(i); field.IsZero() {
			t.Errorf("%s.%s is not set", v.Type(), v.Type().Field(i).Name)
		} else if field.Kind() == reflect.Pointer {
			checkSet(t, field.Elem())
		}
	}
}

func FuzzNothingReadCausesAPanic(f *testing.F) {
	f.Add([]byte{2, 2, 2, 'x'})
	f.Fuzz(func(t *testing.T, bytes []byte) {
		(&Request{}).code(&coder{bytes: bytes, reading: true})
		(&Reply{}).code(&coder{bytes: bytes, reading: true})
	})
}
