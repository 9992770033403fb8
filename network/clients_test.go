package network

import (
	"context"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/policy/hosts"
)

// client is a program that talks to hosts. HOST in its arguments stands for the host's name.
type client struct {
	name string
	argv []string
	// refused is what it says after a 403, besides a failure.
	refused string
}

const pythonGet = `import urllib.request, sys; print(urllib.request.urlopen(sys.argv[1]).read().decode())`

const javaGet = `public class Get { public static void main(String[] a) throws Exception {
	System.out.println(new String(new java.net.URL(a[0]).openStream().readAllBytes())); } }`

// goGet makes this program a client of Go's own, which heeds the variables.
const goGet = "EXECBUS_TEST_GET"

func goClient(url string) (code int) {
	response, err := http.Get(url)
	if err != nil {
		log.Print(err)
		return 1
	}
	defer response.Body.Close()
	io.Copy(os.Stdout, response.Body)
	if response.StatusCode != http.StatusOK {
		return 1
	}
	return 0
}

var clients = []client{
	{"curl", []string{"curl", "-sS", "--fail", "http://HOST/x"}, "403"},
	{"curl over TLS", []string{"curl", "-sS", "--fail", "https://HOST/x"}, "403"},
	{"curl by SOCKS", []string{"sh", "-c", `https_proxy= HTTPS_PROXY= exec curl -sS --fail https://HOST/x`}, ""},
	{"wget", []string{"wget", "-qO-", "http://HOST/x"}, ""},
	{"wget over TLS", []string{"wget", "-O-", "--ca-certificate=CA", "https://HOST/x"}, ""},
	{"git over TLS", []string{"git", "clone", "https://HOST/repo.git", "into"}, "403"},
	{"python3", []string{"python3", "-c", pythonGet, "http://HOST/x"}, "403"},
	{"python3 over TLS", []string{"python3", "-c", pythonGet, "https://HOST/x"}, "403"},
	{"java", []string{"java", "-XX:TieredStopAtLevel=1", "-cp", "CLASSES", "Get", "http://HOST/x"}, "403"},
	{"go", []string{"env", goGet + "=http://HOST/x", os.Args[0]}, "was blocked"},
	{"go over TLS", []string{"env", goGet + "=https://HOST/x", os.Args[0]}, "Forbidden"},
}

// needs are the programs that a client consists of.
func (c client) needs() []string {
	switch c.name {
	case "curl by SOCKS":
		return []string{"sh", "curl"}
	case "java":
		return []string{"java", "javac"}
	default:
		return []string{c.argv[0]}
	}
}

func TestRealClients(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			for _, program := range c.needs() {
				if _, err := exec.LookPath(program); err != nil {
					t.Skipf("%s is not installed", program)
				}
			}
			if version, err := exec.Command(c.argv[0], "--version").Output(); c.argv[0] == "wget" && !strings.Contains(string(version), "GNU Wget ") {
				t.Skipf("wget is not GNU's: %s, %v", version, err)
			}
			t.Parallel()
			c.test(t)
		})
	}
}

func (c client) test(t *testing.T) {
	snapshot := snapshotOf(t, allowed("example.com", ""), messages.HostRule{Host: "asked.example.com", Decision: messages.HostPrompt})
	var r *rig
	r = newRig(t, Options{Snapshot: snapshot, Ask: func(_ context.Context, q Question) error {
		snapshot := snapshot
		snapshot.Grants = []hosts.Grant{{ID: "g1", Host: q.Host, Port: q.Port, Protocol: q.Protocol, Process: q.Process}}
		r.Update(snapshot)
		return nil
	}})
	web := http.NewServeMux()
	web.HandleFunc("/x", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello from "+r.Host) })
	web.Handle("/repo.git/", http.StripPrefix("/repo.git", http.FileServer(http.Dir(repository(t, c)))))
	plain, secret := httptest.NewServer(web), httptest.NewUnstartedServer(web)
	secret.Config.ErrorLog = log.New(io.Discard, "", 0)
	secret.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(secret.Close)
	r.mu.Lock()
	for _, name := range []string{"example.com", "asked.example.com", "denied.example.com"} {
		r.names[name] = []string{goodAddress}
	}
	r.servers[goodAddress+":80"], r.servers[goodAddress+":443"] = plain.Listener.Addr().String(), secret.Listener.Addr().String()
	r.mu.Unlock()

	certificate := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secret.Certificate().Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	authorities := []string{"SSL_CERT_FILE=" + certificate, "CURL_CA_BUNDLE=" + certificate, "GIT_SSL_CAINFO=" + certificate}
	variables := Environment{Address: netip.MustParseAddrPort(r.address), User: r.Credential(1234)}.Variables(authorities)
	classes := compiled(t, c)
	run := func(host string) (string, error) {
		dir := t.TempDir()
		argv := make([]string, len(c.argv))
		for i, word := range c.argv {
			argv[i] = strings.NewReplacer("HOST", host, "=CA", "="+certificate, "CLASSES", classes).Replace(word)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		command := exec.CommandContext(ctx, argv[0], argv[1:]...)
		command.Dir, command.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C.UTF-8"}
		for name, value := range variables {
			command.Env = append(command.Env, name+"="+value)
		}
		output, err := command.CombinedOutput()
		if c.argv[0] == "git" && err == nil {
			text, err := os.ReadFile(filepath.Join(dir, "into", "file"))
			return string(text), err
		}
		return string(output), err
	}
	for _, host := range []string{"example.com", "asked.example.com"} {
		if output, err := run(host); err != nil || !strings.Contains(output, "hello from "+host) && c.argv[0] != "git" || c.argv[0] == "git" && output != "hello\n" {
			t.Errorf("%s: %v\n%s", host, err, output)
		}
	}
	if asked := r.Stats().Asked; asked == 0 || asked > 2 { // git and curl may show their credential only where it is asked for
		t.Errorf("%d questions", asked)
	}
	dials := len(r.dialled())
	if output, err := run("denied.example.com"); err == nil || !strings.Contains(output, c.refused) {
		t.Errorf("a denied host: %v\n%s", err, output)
	}
	if len(r.dialled()) > dials {
		t.Errorf("it dialled %v", r.dialled())
	}
	record := r.recordOf(func(c messages.Connection) bool { return c.Host == "denied.example.com" })
	if record.Allowed || record.Suggestion == nil {
		t.Errorf("%+v", record)
	}
}

// repository is a repository that a file server can serve, for git only.
func repository(t *testing.T, c client) string {
	dir := t.TempDir()
	if c.argv[0] != "git" {
		return dir
	}
	script := `git init -q work && cd work && echo hello >file && git add file && git -c user.name=a -c user.email=a@b commit -qm a && cd .. &&
		git clone -q --bare work repo.git && cd repo.git && git update-server-info`
	command := exec.Command("sh", "-c", script)
	command.Dir, command.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return filepath.Join(dir, "repo.git")
}

// compiled is a directory with the program for Java, for java only.
func compiled(t *testing.T, c client) string {
	dir := t.TempDir()
	if c.argv[0] != "java" {
		return dir
	}
	source := filepath.Join(dir, "Get.java")
	if err := os.WriteFile(source, []byte(javaGet), 0o644); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.Command("javac", "-d", dir, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return dir
}
