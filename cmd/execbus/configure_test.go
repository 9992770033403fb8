package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

// configured returns the settings of a command with some arguments, and the message about a mistake.
func configured(t *testing.T, command string, arguments ...string) (c *config, code int, wrong string) {
	t.Helper()
	c = &config{}
	var errors bytes.Buffer
	_, code, done := configure(command, "Usage", c, arguments, streams{strings.NewReader(""), &errors, &errors})
	if done != (code != 0) {
		t.Fatalf("done %v, code %d", done, code)
	}
	return c, code, errors.String()
}

// home gives the test configuration directories of its own, and writes the user's file.
func home(t *testing.T, text string) (file string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", "")
	base, err := os.UserConfigDir()
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(base, "execbus", "config.toml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A flag replaces the variable, the variable replaces the file, and the file replaces the default: for every setting, in every
// combination.
func TestEverySettingHasItsSources(t *testing.T) {
	rules := t.TempDir()
	values := map[string][]string{ // three that differ
		"dir": {"/a", "/b", "/c"}, "cd": {"/a", "/b", "/c"}, "approval": {"never", "untrusted", "on-failure"},
		"sandbox": {"read-only", "workspace-write", "external-sandbox"}, "writable": {"/a", "/b", "/c"}, "assurance": {"none", "confined", "isolated"},
		"rules": {rules, "/", "/tmp"}, "limit": {"files=1", "files=2", "processes=3"}, "timeout": {"1s", "2s", "3s"},
		"allow-host": {"a.example", "*.b.example:8443", "c.example:22/tcp"}, "http": {"a", "b", "c"}, "token-file": {"/a", "/b", "/c"},
		"listen": {"a", "b", "c"}, "proxy": {"a", "b", "c"}, "tls-cert": {"/a", "/b", "/c"}, "tls-key": {"/a", "/b", "/c"}, "client-ca": {"/a", "/b", "/c"}, "file-root": {"/a", "/b", "/c"}, "view": {"raw", "text", "screen"}, "executions": {"off", "report", "enforce"},
		"audit": {"/a", "/b", "/c"}, "audit-full": {"drop", "stop", "drop"}, "record": {"/a", "/b", "/c"}, "window": {"a", "b", "c"}, "window-host": {"a", "b", "c"}, "window-cert": {"/a", "/b", "/c"}, "window-key": {"/a", "/b", "/c"},
		"max-processes": {"1", "2", "3"},
		"until":         {"", "", "awaiting_input"}, "output-quota": {"2097152", "3145728", "4194304"}, "output-total": {"67108864", "77108864", "87108864"},
	}
	for _, s := range settings {
		command := strings.Fields(s.commands)[0]
		v, file := values[s.name], ""
		if s.value == "" {
			v = []string{"true", "false", "true"}
		}
		quoted := `"` + v[0] + `"`
		if s.several {
			quoted = "[" + quoted + "]"
		} else if s.value == "" {
			quoted = v[0]
		}
		file = s.key() + " = " + quoted + "\n"
		for sources := range 8 {
			inFile, inVariable, inFlag := sources&1 > 0 && !s.once, sources&2 > 0 && !s.once, sources&4 > 0
			text, variable, want := "", "", ""
			var arguments []string
			if inFile {
				text, want = file, v[0]
			}
			if inVariable {
				variable, want = v[1], v[1]
			}
			if inFlag {
				arguments, want = []string{"--" + s.name + "=" + v[2]}, v[2]
			}
			home(t, text)
			t.Setenv(s.variable(), variable)
			got, code, wrong := configured(t, command, arguments...)
			expected := &config{}
			if want != "" {
				if err := s.set(expected, []string{want}); err != nil {
					t.Fatal(err)
				}
			}
			expected.sandbox.NetworkAccess, got.sandbox.WritableRoots = expected.network, nil
			if hosts := expected.hosts; hosts != nil {
				expected.sandbox.Network = &messages.NetworkPolicy{Hosts: hosts}
			}
			if code != 0 || !reflect.DeepEqual(got, expected) {
				t.Errorf("%s in the file %v, in the environment %v, as a flag %v: %+v, want %+v; %s", s.name, inFile, inVariable, inFlag, got, expected, wrong)
			}
		}
		t.Setenv(s.variable(), "")
	}
}

// A misspelled variable may have been meant to forbid something.
func TestVariablesThatAreNoSettingsAreNamed(t *testing.T) {
	home(t, "")
	for name, says := range map[string]string{
		"EXECBUS_SANDBX":                   "execbus: the environment variable \"EXECBUS_SANDBX\" is no setting, and is ignored; did you mean EXECBUS_SANDBOX?\n",
		"EXECBUS_CONFG":                    "did you mean EXECBUS_CONFIG?\n",
		"EXECBUS_NOTHING_LIKE_IT":          "\"EXECBUS_NOTHING_LIKE_IT\" is no setting, and is ignored\n",
		"EXECBUS_CD":                       "\"EXECBUS_CD\" is no setting, and is ignored\n", // it is a flag only
		"EXECBUS_TIMEOUT":                  "",                                               // of another command
		"EXECBUS_SANDBOX_NETWORK_DISABLED": "",                                               // from a sandbox around this one
		"EXECBUSY":                         "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "1m")
			if _, code, text := configured(t, "mcp"); code != 0 || !strings.HasSuffix(text, says) || says == "" && text != "" {
				t.Errorf("%d, %q", code, text)
			}
		})
	}
}

func TestSettingsThatAreOnlyFlags(t *testing.T) {
	home(t, "")
	t.Setenv("EXECBUS_JSON", "true")
	if c, code, _ := configured(t, "run"); code != 0 || c.json {
		t.Errorf("%d, %+v", code, c)
	}
	home(t, "json = true")
	if _, code, wrong := configured(t, "run"); code != exitMisused || !strings.Contains(wrong, `:1:1: there is no setting "json"`) {
		t.Errorf("%d, %s", code, wrong)
	}
}

func TestSeveralValues(t *testing.T) {
	file := home(t, `writable = ["sub", "/abs"]`)
	c, _, wrong := configured(t, "run")
	if want := []string{filepath.Join(filepath.Dir(file), "sub"), "/abs"}; !reflect.DeepEqual(c.writable, want) {
		t.Errorf("%q, want %q; %s", c.writable, want, wrong)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("EXECBUS_WRITABLE", "sub:/abs")
	if c, _, wrong = configured(t, "run"); !reflect.DeepEqual(c.sandbox.WritableRoots, []string{filepath.Join(here, "sub"), "/abs"}) {
		t.Errorf("%q; %s", c.sandbox.WritableRoots, wrong)
	}
	c, _, wrong = configured(t, "run", "--writable", "/x", "--writable", "/y", "--limit", "files=5", "--limit", "wall=1m", "--no-tty")
	limits := messages.Limits{OpenFiles: 5, WallTime: time.Minute}
	if !reflect.DeepEqual(c.writable, []string{"/x", "/y"}) || c.limits != limits || c.tty == nil || *c.tty {
		t.Errorf("%+v; %s", c, wrong)
	}
}

func TestWhereTheFileIs(t *testing.T) {
	own := home(t, `approval = "never"`)
	other := filepath.Join(t.TempDir(), "other.toml")
	if err := os.WriteFile(other, []byte(`approval = "untrusted"`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		variable, flag string
		want           messages.ApprovalMode
	}{{"-", "-", "never"}, {other, "-", "untrusted"}, {own, other, "untrusted"}, {"", "-", ""}, {other, "", ""}} {
		t.Setenv(configVariable, test.variable)
		if test.variable == "-" {
			if err := os.Unsetenv(configVariable); err != nil {
				t.Fatal(err)
			}
		}
		var arguments []string
		if test.flag != "-" {
			arguments = []string{"--config", test.flag}
		}
		if c, code, wrong := configured(t, "mcp", arguments...); code != 0 || c.approval.Mode != test.want {
			t.Errorf("%+v: %v; %s", test, c.approval, wrong)
		}
	}
	if _, code, wrong := configured(t, "mcp", "--config", "/does/not/exist"); code != exitMisused || !strings.Contains(wrong, "no such file") {
		t.Errorf("%d, %s", code, wrong)
	}
	if err := os.Remove(own); err != nil {
		t.Fatal(err)
	}
	if _, code, wrong := configured(t, "mcp", "--config", ""); code != 0 {
		t.Error(wrong)
	}
}

func TestMistakesInTheFileAreNamedWithTheirPlaces(t *testing.T) {
	for _, test := range []struct{ text, says string }{
		{"\naproval = 'never'", `:2:1: there is no setting "aproval"; did you mean approval?`},
		{"nothing_like_it = 1", `:1:1: there is no setting "nothing_like_it"` + "\n"},
		{"approval = 7", ":1:12: approval must be a string, and is a number"},
		{"\n  sandbox =   true", ":2:15: sandbox must be a string, and is true or false"},
		{"network = 'yes'", `:1:11: network must be true, false or "ask", and is a string`},
		{"network = []", `:1:1: network must be true, false or "ask", and is a list`},
		{"rules = 'a'", ":1:9: rules must be a list of strings, and is a string"},
		{"limit = ['files=1',\n   7]", ":2:4: limit must be a list of strings, and has a number in it"},
		{"writable = [[]]", ":1:1: writable must be a list of strings, and has a list in it"},
		{"sandbox = {type = 'read-only'}", ":1:11: sandbox must be a string, and is a table"},
		{"timeout = 07:32:00", ":1:11: timeout must be a string, and is a time"},
		{"[run]\ntimeout = '1s'", ":1:2: settings cannot be in a table"},
		{"[[run]]", ":1:3: settings cannot be in a table"},
		{"run.timeout = '1s'", ":1:1: settings cannot be in a table"},
		{"approval = 'never'\napproval = 'never'", ":2:1: toml: key approval is already defined"},
		{"approval = 'never", ":1:17: toml: "},
		{"approval 'never'", ":1:10: toml: "},
		{"\xff", ":1:1: toml: "},
		{"\n\napproval = 'sometimes'", `:3:12: approval: configure approval policy: there is no mode "sometimes"`},
		{"rules = ['/does/not/exist']", ":1:1: rules: stat /does/not/exist: no such file or directory"},
		{"writable = ['']", ":1:1: writable: it is empty"},
		{"timeout = '5'", `:1:11: timeout: "5" is not a time`},
	} {
		file := home(t, test.text)
		_, code, wrong := configured(t, "run")
		if code != exitMisused || !strings.Contains(wrong, "execbus: "+file+test.says) {
			t.Errorf("%q: %d, %s", test.text, code, wrong)
		}
	}
}

func TestMistakesInTheEnvironmentAndInFlagsAreNamed(t *testing.T) {
	home(t, "")
	t.Setenv("EXECBUS_NETWORK", "perhaps")
	if _, code, wrong := configured(t, "run", "--network"); code != exitMisused || !strings.Contains(wrong, `EXECBUS_NETWORK: "perhaps" is neither true nor false nor ask`) {
		t.Errorf("%d, %s", code, wrong)
	}
	t.Setenv("EXECBUS_NETWORK", "")
	for flag, says := range map[string]string{"--network=perhaps": `--network: "perhaps"`, "--no-tty=perhaps": `"perhaps"`, "--timeout=-1s": "--timeout: ",
		"--assurance=much": "--assurance: ", "--cd=": "--cd: it is empty"} {
		if _, code, wrong := configured(t, "run", flag); code != exitMisused || !strings.Contains(wrong, says) {
			t.Errorf("%s: %d, %s", flag, code, wrong)
		}
	}
}

func TestTheHelpExplainsEverySetting(t *testing.T) {
	for _, s := range settings {
		for _, command := range strings.Fields(s.commands) {
			help := strings.Join(strings.Fields(settingsHelp(command)), " ")
			if !strings.Contains(help, s.usage()+" "+s.meaning) || !strings.Contains(help, s.initial) {
				t.Errorf("the help of %s does not explain %s", command, s.name)
			}
		}
	}
	for line := range strings.Lines(settingsHelp("mcp")) {
		if len([]rune(line)) > helpWidth+1 {
			t.Errorf("too long: %q", line)
		}
	}
}
