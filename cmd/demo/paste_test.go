package main

import (
	"reflect"
	"strings"
	"testing"
)

// A paste is the same however it is cut into chunks.
func TestPasteInPieces(t *testing.T) {
	const typed = "a\x1b[200~x\r\ny\tz\x1b[A\n\x1b[201~b\x1b[A"
	const want = "ax⏎y⇥z[Ab\x1b[A"
	for size := 1; size <= len(typed); size++ {
		var p paste
		var got string
		for rest := typed; rest != ""; {
			n := min(size, len(rest))
			keys, tooLong := p.take([]byte(rest[:n]))
			if got += string(keys); tooLong {
				t.Error("it is called too long")
			}
			rest = rest[n:]
		}
		if got != want && size > 2 { // an escape that comes alone is a key
			t.Errorf("in pieces of %d: %q, want %q", size, got, want)
		}
	}
}

func TestAPasteThatIsTooLong(t *testing.T) {
	var p paste
	if keys, tooLong := p.take([]byte("\x1b[200~" + strings.Repeat("x", longestPaste+1))); len(keys) > 0 || tooLong {
		t.Errorf("%d keys, %v", len(keys), tooLong)
	}
	if keys, tooLong := p.take([]byte("y\x1b[201~z")); string(keys) != "z" || !tooLong {
		t.Errorf("%q, %v", keys, tooLong)
	}
	if keys, _ := p.take([]byte("\x1b[200~ok\x1b[201~")); string(keys) != "ok" {
		t.Errorf("%q", keys)
	}
}

func TestChanges(t *testing.T) {
	for script, want := range map[string]struct {
		change
		only bool
	}{
		"cd /tmp":                   {change{dir: true}, true},
		"cd":                        {change{dir: true}, true},
		"cd ~/x && export A=$B C":   {change{dir: true, exports: []string{"A", "C"}}, true},
		"unset A B; cd -":           {change{dir: true, unsets: []string{"A", "B"}}, true},
		"cd /tmp && ls":             {change{dir: true}, false},
		"cd /tmp || exit":           {change{}, false},
		"cd /tmp &":                 {change{dir: true}, false},
		"cd /tmp >/dev/null":        {change{dir: true}, false},
		"A=1 cd /tmp":               {change{}, false},
		"export":                    {change{}, false},
		"export -p":                 {change{}, false},
		"export -n A":               {change{}, false},
		"unset -f x":                {change{}, false},
		"(cd /tmp)":                 {change{}, false},
		"echo cd /tmp":              {change{}, false},
		"if true; then cd /tmp; fi": {change{}, false},
		"for":                       {change{}, false},
		"":                          {change{}, false},
		"! cd /tmp":                 {change{dir: true}, false},
	} {
		if c, only := changes(script); !reflect.DeepEqual(c, want.change) || only != want.only {
			t.Errorf("%q: %+v, %v; want %+v, %v", script, c, only, want.change, want.only)
		}
	}
}
