package messages

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestDisplay(t *testing.T) {
	for _, c := range []struct {
		want string
		argv []string
	}{
		{"", nil},
		{"''", []string{""}},
		{"ls -l /tmp/x.y", []string{"ls", "-l", "/tmp/x.y"}},
		{"echo a=b 'a b' '' '*' '$HOME' '~' '#'", []string{"echo", "a=b", "a b", "", "*", "$HOME", "~", "#"}},
		{"az AZ 09 @%_+=:,./- 'a`b' 'a[b' 'a;b'", []string{"az", "AZ", "09", "@%_+=:,./-", "a`b", "a[b", "a;b"}},
		{`echo 'it'\''s'`, []string{"echo", "it's"}},
		{"'A=b' ls", []string{"A=b", "ls"}},
		{"'if' x", []string{"if", "x"}},
		{"bash -lc 'a; b \"c\"'", []string{"bash", "-lc", `a; b "c"`}},
		{"cat 'größe'", []string{"cat", "größe"}},
		{`echo $'a\nb'`, []string{"echo", "a\nb"}},
		{`echo $'a\\\'b\e[2K\r\t\x07\x7f'`, []string{"echo", "a\\'b\x1b[2K\r\t\x07\x7f"}},
	} {
		if got := Display(c.argv); got != c.want {
			t.Errorf("%q is displayed as\n%s, want\n%s", c.argv, got, c.want)
		}
	}
}

func TestDisplayHidesNothing(t *testing.T) {
	for name, c := range map[string]struct{ word, want string }{
		"right-to-left override":        {"a\u202efdp.exe", `$'a\u202efdp.exe'`},
		"isolates":                      {"a\u2066b\u2069", `$'a\u2066b\u2069'`},
		"zero-width joiner":             {"a\u200db", `$'a\u200db'`},
		"zero-width space":              {"a\u200bb", `$'a\u200bb'`},
		"soft hyphen":                   {"a\u00adb", `$'a\u00adb'`},
		"byte order mark":               {"\ufeffa", `$'\ufeffa'`},
		"tags":                          {"a\U000e0072\U000e006d", `$'a\U000e0072\U000e006d'`},
		"no-break space":                {"a\u00a0b", `$'a\u00a0b'`},
		"ideographic space":             {"a\u3000b", `$'a\u3000b'`},
		"fillers, a blank pattern":      {"a\u3164b\u115f\uffa0\u2800", `$'a\u3164b\u115f\uffa0\u2800'`},
		"grapheme joiner":               {"a\u034fb", `$'a\u034fb'`},
		"variation selector":            {"a\ufe0f", `$'a\ufe0f'`},
		"other ends of lines":           {"a\u2028b\u2029c\u0085", `$'a\u2028b\u2029c\u0085'`},
		"a mark without a letter":       {"-\u0338a", `$'-\u0338a'`},
		"a mark on its letter":          {"e\u0301", "'e\u0301'"},
		"a mark too many":               {"e\u0301\u0302", "$'e\u0301\\u0302'"},
		"no UTF-8":                      {"a\xffb\xe2\x80", `$'a\xffb\xe2\x80'`},
		"a real replacement":            {"\ufffd", "'\ufffd'"},
		"a Cyrillic letter among Latin": {"c\u0430t", `$'c\u0430t'`},
		"a Greek letter at the end":     {"go\u03bf", `$'go\u03bf'`},
		"a wide letter at the start":    {"\uff47it", `$'\uff47it'`},
		"a mathematical letter":         {"gi\U0001d42d", `$'gi\U0001d42d'`},
		"a phonetic letter":             {"\u0261it", `$'\u0261it'`},
		"Cyrillic words":                {"отчёт.txt", "'отчёт.txt'"},
		"Chinese beside Latin":          {"版本v2", "'版本v2'"},
		"Hebrew":                        {"a\u05d0\u05d1.txt", `$'a\u05d0\u05d1.txt'`},
		"Arabic letters and digits":     {"\u0627\u0661", `$'\u0627\u0661'`},
		"other letters from the right":  {"\ufb1d\ufdfd\ufe8d\U00010800\U0001e900", `$'\ufb1d\ufdfd\ufe8d\U00010800\U0001e900'`},
		"a stroke through a letter":     {"a\u0336b\u20dd", `$'a\u0336b\u20dd'`},
		"points on Hebrew":              {"\u05d0\u05b8", `$'\u05d0\u05b8'`},
		"Korean in parts":               {"\u1112\u1161\u11ab", "'\u1112\u1161\u11ab'"},
		"Korean parts over a letter":    {"c\u1161\u11ab\u1161", `$'c\u1161\u11ab\u1161'`},
		"two vowels on one letter":      {"\u1112\u1161\u1161", "$'\u1112\u1161\\u1161'"},
		"a letter over its neighbours":  {"\U00012219\u2e3b", `$'\U00012219\u2e3b'`},
		"a filler, a stand-in":          {"\u1160\ufffc", `$'\u1160\ufffc'`},
		"private use":                   {"\ue000", `$'\ue000'`},
		"unassigned":                    {"\U0003ffff", `$'\U0003ffff'`},
		"quote and override":            {"'\u202e'", `$'\'\u202e\''`},
		"backslash and override":        {"\\u0041\u202e", `$'\\u0041\u202e'`},
		"digits behind an override":     {"\u202e1234", `$'\u202e1234'`},
	} {
		if got := Display([]string{"cat", c.word}); got != "cat "+c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	for word, want := range map[string]string{
		"c\u0430t": `$'c\u0430t'`, "\u0441\u0430": `$'\u0441\u0430'`, "gr\u00fcn": `$'gr\u00fcn'`,
	} {
		if got := Display([]string{word}); got != want {
			t.Errorf("a program %q is displayed as %s", word, got)
		}
	}
}

// anyWord draws words, dangerous ones more often.
func anyWord() *rapid.Generator[string] {
	odd := []string{"'", "\\", "$", "`", "\"", " ", "\n", "\x1b", "\x7f", "\u202e", "\u200d", "\ufeff", "\U000e0041", "\u00a0",
		"\xff", "\xe2\x80",
		"\u0301", "\u3164", "a", "if", "=", "~", "!", "#", "*", "{a,b}", "0", "é", "字"}
	return rapid.Custom(func(t *rapid.T) string {
		word := strings.Join(rapid.SliceOfN(rapid.SampledFrom(odd), 0, 6).Draw(t, "odd"), "")
		return strings.ReplaceAll(word+rapid.StringN(0, 3, -1).Draw(t, "any"), "\x00", "")
	})
}

func TestADisplayedCommandIsOneVisibleLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		argv := rapid.SliceOfN(anyWord(), 0, 5).Draw(t, "argv")
		for _, shown := range []string{Display(argv), Visible(strings.Join(argv, " "))} {
			if !utf8.ValidString(shown) {
				t.Fatalf("%q is displayed as %q: no UTF-8", argv, shown)
			}
			for _, r := range shown {
				if !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Bidi_Control) {
					t.Fatalf("%q is displayed with %q: %q", argv, r, shown)
				}
			}
		}
	})
}

// TestBashReadsWhatIsDisplayed gives many displayed commands to one bash.
func TestBashReadsWhatIsDisplayed(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	var argvs [][]string
	for seed := range 300 {
		argv := rapid.SliceOfN(anyWord(), 1, 5).Example(seed)
		if argv[0] != "" {
			argvs = append(argvs, argv)
		}
	}
	argvs = append(argvs, []string{"if", "x"}, []string{"A=b", "x"}, []string{"!"}, []string{"{", "}"}, []string{"~", "~root"},
		[]string{"-n", "-e"}, []string{"\u202e1234", "\U000e00410"})
	var input strings.Builder
	input.WriteString("command_not_found_handle() { printf '%s\\0' \"$@\" end; }\nPATH=/nowhere\n")
	var want []string
	for _, argv := range argvs {
		// As arguments and, where it is no builtin, as the program.
		input.WriteString("command_not_found_handle " + Display(append([]string{"x"}, argv...)) + "\n")
		want = append(append(append(want, "x"), argv...), "end")
		if !strings.Contains(argv[0], "/") && slices.Contains(append(reserved, "A=b", "~"), argv[0]) {
			input.WriteString(Display(argv) + "\n")
			want = append(append(want, argv...), "end")
		}
	}
	cmd := exec.CommandContext(context.Background(), bash, "--norc", "--noprofile")
	cmd.Env = []string{"LC_ALL=C.UTF-8"}
	cmd.Stdin = strings.NewReader(input.String())
	output, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(string(output), "\x00"), "\x00")
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("word %d is %q, want %q; before it %q", i, got[min(i, len(got)-1)], want[i], want[max(i-5, 0):i])
		}
	}
}
