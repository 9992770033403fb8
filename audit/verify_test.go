package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/execbus/execbus/messages"
)

// sample is a log of three runs, and its head.
func sample(t testing.TB) (text, side []byte) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	for range 3 {
		l, err := Open(Options{File: file})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 5 {
			l.Append(started(n))
			l.Append(typed("text"))
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if side, err = os.ReadFile(file + HeadSuffix); err != nil {
		t.Fatal(err)
	}
	return text, side
}

// changed is a log in which one thing is not as it was, and the first line that is not.
func changed(t *rapid.T, text []byte) (_ []byte, line int) {
	all := bytes.SplitAfter(text, []byte{'\n'})
	all = all[:len(all)-1]
	i := rapid.IntRange(0, len(all)-1).Draw(t, "line")
	switch rapid.SampledFrom([]string{"change", "remove", "insert", "repeat", "swap", "cut", "cut within", "byte"}).Draw(t, "how") {
	case "change":
		all[i] = bytes.Replace(all[i], []byte(`"kind":"`), []byte(`"kind":"x`), 1)
	case "remove":
		all = slices.Delete(all, i, i+1)
	case "insert":
		all = slices.Insert(all, i, []byte(`{"n":1,"prev":"","event":{"kind":"exec_started"}}`+"\n"))
	case "repeat":
		all = slices.Insert(all, i, all[i])
		i++
	case "swap":
		i = max(i, 1)
		all[i-1], all[i] = all[i], all[i-1]
		i--
	case "cut":
		all = all[:i]
	case "cut within":
		all = append(all[:i:i], all[i][:rapid.IntRange(1, len(all[i])-1).Draw(t, "at")])
	case "byte":
		all[i] = slices.Clone(all[i])
		all[i][rapid.IntRange(0, len(all[i])-1).Draw(t, "at")] ^= rapid.ByteRange(1, 255).Draw(t, "bits")
	}
	return bytes.Join(all, nil), i + 1
}

// TestEveryChangeIsFound, and where it is: at the line, or at the next one, which has its digest.
func TestEveryChangeIsFound(t *testing.T) {
	text, side := sample(t)
	h, err := readHead(side)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := Verify(bytes.NewReader(text), nil, h.AuditHead); err != nil || r.State != Complete || r.Runs != 3 || r.Head.Lines != 36 {
		t.Fatal(r, err)
	}
	rapid.Check(t, func(t *rapid.T) {
		other, line := changed(t, text)
		if bytes.Equal(other, text) {
			return
		}
		r, err := Verify(bytes.NewReader(other), nil, h.AuditHead)
		if err != nil || r.State != Broken {
			t.Fatal(r, err)
		}
		if at := r.Broken.Line; at != int64(line) && at != int64(line)+1 {
			t.Fatalf("line %d was changed: %v", line, r)
		}
		if offset := r.Broken.Offset; offset > int64(len(other)) || offset > 0 && other[offset-1] != '\n' {
			t.Fatal("there is no line at", offset)
		}
	})
}

// TestALogThatWasWrittenAnew has right digests everywhere, but not the head that was kept. Without one nobody can tell.
func TestALogThatWasWrittenAnew(t *testing.T) {
	text, side := sample(t)
	h, _ := readHead(side)
	var p place
	n := 0
	if _, err := Verify(bytes.NewReader(text), func(l Line) error {
		if n++; n != 4 {
			p.line(slices.Clone(l.Event))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if r, err := Verify(bytes.NewReader(p.pending), nil); err != nil || r.State != Complete {
		t.Fatal(r, err)
	}
	if r, err := Verify(bytes.NewReader(p.pending), nil, h.AuditHead); err != nil || r.State != Broken {
		t.Fatal(r, err)
	}
}

func TestAFileWithoutAHead(t *testing.T) {
	text, side := sample(t)
	h, err := readHead(side)
	if err != nil {
		t.Fatal(err)
	}
	last := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1 // as if the host had been killed between the last line and the head
	h.Lines, h.Digest, h.Bytes = h.Lines-1, digestOf(text[bytes.LastIndexByte(text[:last-1], '\n')+1:last-1]), int64(last)
	older := h.text()
	for name, c := range map[string]struct {
		text, side []byte
		want       State
	}{
		"as it was":        {text, side, Complete},
		"no head":          {text, nil, Broken},
		"no text":          {text, []byte(" "), Broken},
		"another text":     {text, []byte("hello"), Broken},
		"a head of no log": {text, []byte(`{"lines":1,"digest":"","bytes":1,"log":"x"}`), Broken},
		"another log":      {text, bytes.Replace(side, []byte(`"log":"`), []byte(`"log":"x`), 1), Broken},
		"nothing":          {nil, nil, NotClosed},
		"nothing but text": {nil, []byte("hello"), Broken},
		"half a line more": {append(slices.Clone(text), `{"n":37,"prev`...), side, NotClosed},
		"lines more":       {text, older, NotClosed},
		"only the head":    {nil, side, Broken},
		"half a line":      {text[:20], nil, Broken},
		"more in the head": {text, append(slices.Clone(side), "\nmore"...), Complete},
		"lines of another": {text, head{Log: "a45b2c1e-6f0d-4a53-9f3c-8d1b0a7e5c11"}.text(), Broken},
	} {
		file := filepath.Join(t.TempDir(), "a")
		err := os.WriteFile(file, c.text, 0o600)
		if err == nil && c.side != nil {
			err = os.WriteFile(file+HeadSuffix, c.side, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if r, err := VerifyFile(file, nil); err != nil || r.State != c.want {
			t.Errorf("%s: %v %v, want %s", name, r, err, c.want)
		}
	}
	if _, err := VerifyFile(filepath.Join(t.TempDir(), "none"), nil); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// TestLinesThatNoHostWrites follow each other, and yet are not what a host writes.
func TestLinesThatNoHostWrites(t *testing.T) {
	const log = "a45b2c1e-6f0d-4a53-9f3c-8d1b0a7e5c11"
	begins := func(run int64, log string) func(*place) { return func(p *place) { p.own(&Opened{Run: run, Log: log}) } }
	ends, happens := func(p *place) { p.own(&Closed{}) }, func(p *place) { p.line([]byte(`{"kind":"exec_started"}`)) }
	for name, c := range map[string]struct {
		lines []func(*place)
		says  string // empty: a host writes it
	}{
		"two runs":                      {[]func(*place){begins(1, log), happens, ends, begins(2, log), ends}, ""},
		"a number that is not the next": {[]func(*place){func(p *place) { p.lines = 4 }, begins(1, log), ends}, "line 1: its number is 5"},
		"a run that is not the next":    {[]func(*place){begins(1, log), ends, begins(3, log), ends}, "line 3: it begins run 3 behind run 1"},
		"a first run that is not":       {[]func(*place){begins(2, log), ends}, "line 1: it begins run 2 behind run 0"},
		"a run of another log":          {[]func(*place){begins(1, log), ends, begins(2, "b"+log[1:]), ends}, "line 3: it begins a run of another log"},
		"a line before the first run":   {[]func(*place){happens, begins(1, log), ends}, "line 1: it belongs to no run"},
		"a line between runs":           {[]func(*place){begins(1, log), ends, happens, begins(2, log), ends}, "line 3: it belongs to no run"},
		"blanks": {[]func(*place){begins(1, log), ends, func(p *place) { p.pending = append(p.pending, "{ }\n"...) }},
			"line 3: it is not a line of an audit log"},
	} {
		var p place
		for _, line := range c.lines {
			line(&p)
		}
		r, err := Verify(bytes.NewReader(p.pending), nil)
		if err != nil || (r.State == Broken) != (c.says != "") || r.Broken != nil && !strings.HasPrefix(r.Broken.String(), c.says) {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}

// endless is a line without an end. It counts what was read.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.read += len(p)
	return len(p), nil
}

func TestALineWithoutAnEndIsNotRead(t *testing.T) {
	var in endless
	if r, err := Verify(&in, nil); err != nil || r.State != Broken || in.read > 2*maxRead {
		t.Error(r, err, in.read)
	}
}

// TestMemoryIsThatOfALine: a longer log needs no more of it.
func TestMemoryIsThatOfALine(t *testing.T) {
	var p place
	p.own(&Opened{Run: 1})
	for n := range 20_000 {
		p.add(queued{event: started(n)})
	}
	short := bytes.LastIndexByte(p.pending[:len(p.pending)/20], '\n') + 1
	largest := func(text []byte) (n int) {
		if _, err := Verify(bytes.NewReader(text), func(l Line) error { n = max(n, cap(l.Raw)); return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if one, other := largest(p.pending[:short]), largest(p.pending); one > maxRead || other > maxRead {
		t.Errorf("a line keeps %d and %d bytes alive", one, other)
	}
}

// TestEachKindOfEventIsConsidered: a new one is in the log, or in this list with a reason.
func TestEachKindOfEventIsConsidered(t *testing.T) {
	without := []string{
		"KindOutputDelta", "KindExecExited", "KindOutputClosed", // output has no lines; ExecEnded has the status
		"KindCaughtUp",       // is never on the bus
		"KindProcessWarning", // nothing has happened
		"KindAuditAnchored",  // is about the log itself
	}
	file, err := parser.ParseFile(token.NewFileSet(), "../messages/event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Kind") {
			return true
		}
		literal, is := spec.Values[0].(*ast.BasicLit)
		if !is {
			return true
		}
		found++
		kind, _ := strconv.Unquote(literal.Value)
		if slices.Contains(Kinds(), messages.EventKind(kind)) == slices.Contains(without, spec.Names[0].Name) {
			t.Errorf("%s: decide whether it is in the audit log", spec.Names[0].Name)
		}
		return true
	})
	if found < len(Kinds())+len(without) {
		t.Errorf("only %d kinds were found", found)
	}
}

func TestPlainTextIsTheSameValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.StringOf(rapid.RuneFrom([]rune("<>&\\u0036cea\"\x00 é\u2028"))).Draw(t, "in")
		encoded, _ := json.Marshal(map[string]string{in: in})
		shown := plain(encoded)
		var out map[string]string
		if err := json.Unmarshal(shown, &out); err != nil || !reflect.DeepEqual(out, map[string]string{in: in}) {
			t.Fatalf("%q became %s: %v", in, shown, err)
		}
		if bytes.ContainsAny([]byte(in), "<>&") && bytes.Count(shown, []byte("<")) != 2*strings.Count(in, "<") {
			t.Fatalf("%q became %s", in, shown)
		}
	})
}

// FuzzVerify: whatever a log has, it is read to where it is broken, and nothing but what was written is complete.
func FuzzVerify(f *testing.F) {
	text, side := sample(f)
	h, _ := readHead(side)
	f.Add(text, side)
	f.Add(text[:len(text)/2], side)
	f.Add(text, fmt.Appendf(nil, `{"lines":0,"digest":"","bytes":0,"runs":0,"log":"%s"}`, strings.Repeat("x", 180))) // no room for more lines
	f.Add([]byte("{\"n\":1,\"prev\":\"\",\"event\":{\"kind\":\"audit_opened\",\"run\":1}}\n"), []byte("{}"))
	f.Fuzz(func(t *testing.T, other, otherSide []byte) {
		var read int64
		r, err := Verify(bytes.NewReader(other), func(l Line) error {
			if read++; l.N != read || !json.Valid(l.Event) {
				t.Fatal(l.N, read)
			}
			return nil
		}, h.AuditHead)
		if err != nil || r.State == Complete && !bytes.Equal(other, text) || r.Head.Lines != read || (r.State == Broken) != (r.Broken != nil) || r.String() == "" {
			t.Fatal(r, err)
		}
		if h, err := readHead(otherSide); err == nil && h.Log != "" {
			h.Lines, h.Digest = max(h.Lines, 1), digestOf(text) // the next line of its log
			if again, err := readHead(h.text()); err != nil || again != h {
				t.Fatal(again, err)
			}
		}
	})
}
