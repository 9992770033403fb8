package mcp

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/expect"
)

func TestProcessesAreResources(t *testing.T) {
	for _, version := range generations {
		t.Run(version, func(t *testing.T) {
			updates, changes := make(chan string, 100), make(chan struct{}, 100)
			client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
				ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) { updates <- r.Params.URI },
				ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) {
					select {
					case changes <- struct{}{}:
					default:
					}
				},
			})
			session := connect(t, Options{}, client, version)
			call(t, session, "exec_command", map[string]any{"cmd": "echo short"})
			if listed, err := session.ListResources(t.Context(), nil); err != nil || len(listed.Resources) != 0 {
				t.Fatalf("a command that has ended at once is listed: %v, %v", listed, err)
			}
			result := call(t, session, "exec_command", map[string]any{"cmd": "stty -echo; cat", "tty": true, "yield_time_ms": 250})
			id := int(result.StructuredContent.(map[string]any)["session_id"].(float64))
			<-changes
			listed, err := session.ListResources(t.Context(), nil)
			if err != nil || len(listed.Resources) != 1 || listed.Resources[0].URI != fmt.Sprintf("execbus://processes/%d", id) {
				t.Fatalf("%+v, %v", listed, err)
			}
			uri := listed.Resources[0].URI
			if err := session.Subscribe(t.Context(), &sdk.SubscribeParams{URI: uri}); err != nil {
				t.Fatal(err)
			}
			read := func() string {
				t.Helper()
				read, err := session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
				if err != nil {
					t.Fatal(err)
				}
				return read.Contents[0].Text
			}
			expect.Eventually(t, "the subscriber hears of output", func() bool { // with the new protocol the subscription begins a moment later
				call(t, session, "write_stdin", map[string]any{"session_id": id, "chars": "hello\n"})
				return len(updates) > 0
			})
			if got := <-updates; got != uri {
				t.Errorf("an update of %s", got)
			}
			expect.Eventually(t, "the output is there", func() bool { return strings.Contains(read(), "hello\r\n") })
			for len(updates) > 0 {
				<-updates
			}
			call(t, session, "terminate_process", map[string]any{"session_id": id})
			<-updates // the end
			if !strings.Contains(read(), "hello") {
				t.Error("the output is forgotten at once")
			}
		})
	}
}

// Ended processes are resources as long as the session remembers them, and no longer.
func TestEndedProcessesAreResourcesUntilTheyAreForgotten(t *testing.T) {
	const records, processes = 64, 70
	p := dial(t, Options{Session: execbus.SessionOptions{MaxProcesses: 2 * processes}})
	p.greet("2025-11-25", "{}")
	var ids []int
	for i := range processes {
		p.call(i, "exec_command", fmt.Sprintf(`{"cmd":"echo number %d; exec sleep 60","yield_time_ms":250}`, i))
	}
	for range processes {
		id, running := p.next().Result.Structured["session_id"].(float64)
		if !running {
			t.Fatal("it has ended")
		}
		ids = append(ids, int(id))
	}
	for i, id := range ids {
		p.ready(10_000*(i+1), id, "number ")
	}
	list := func(n int) (uris []string) {
		p.send(`{"jsonrpc":"2.0","id":%d,"method":"resources/list"}`, n)
		for _, r := range p.answer(fmt.Sprint(n)).Result.Resources {
			uris = append(uris, r.URI)
		}
		return uris
	}
	if uris := list(1000); len(uris) != processes {
		t.Errorf("%d processes are listed, of %d", len(uris), processes)
	}
	for i, id := range ids {
		p.call(2000+i, "terminate_process", fmt.Sprintf(`{"session_id":%d}`, id))
	}
	for range processes {
		p.next()
	}
	uris := list(1001)
	if len(uris) != records {
		t.Errorf("%d ended processes are listed, want %d", len(uris), records)
	}
	left := 0
	for i, id := range ids {
		uri := fmt.Sprintf("execbus://processes/%d", id)
		p.send(`{"jsonrpc":"2.0","id":%d,"method":"resources/read","params":{"uri":%q}}`, 3000+i, uri)
		if m := p.answer(fmt.Sprint(3000 + i)); (m.Error == nil) != slices.Contains(uris, uri) {
			t.Errorf("%s is listed %v and read with %+v", uri, slices.Contains(uris, uri), m)
		} else if m.Error == nil {
			left++
			expect.Contains(t, m.Result.Contents[0].Text, "number ")
		}
	}
	if left != records {
		t.Errorf("%d can be read", left)
	}
}

// Clients refuse the content of a resource that has neither a text nor a blob.
func TestAResourceWithoutOutputHasAText(t *testing.T) {
	p := dial(t, Options{})
	p.greet("2025-11-25", "{}")
	p.call(1, "exec_command", `{"cmd":"exec sleep 600","yield_time_ms":250}`)
	uri := fmt.Sprintf("execbus://processes/%v", p.answer("1").Result.Structured["session_id"])
	p.send(`{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":%q}}`, uri)
	line := p.line()
	for !strings.Contains(line, `"id":2,`) {
		line = p.line()
	}
	if want := fmt.Sprintf(`"contents":[{"uri":%q,"mimeType":"text/plain","text":""}]`, uri); !strings.Contains(line, want) {
		t.Errorf("%s, want %s in it", line, want)
	}
}

func TestResourcesThatThereAreNot(t *testing.T) {
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session := connect(t, Options{}, client, "2025-06-18")
	for _, uri := range []string{"execbus://processes/77777", "execbus://processes/", "execbus://processes/1e3", "execbus://processes/01000", "execbus://processes/-5", "file:///etc/passwd"} {
		if _, err := session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s can be read", uri)
		}
		if err := session.Subscribe(t.Context(), &sdk.SubscribeParams{URI: uri}); err == nil {
			t.Errorf("%s can be subscribed to", uri)
		}
	}
}

func TestSubscriptionsAreBoundedAndCounted(t *testing.T) {
	p := dial(t, Options{})
	p.greet("2025-06-18", "{}")
	id := p.start(1, `{"cmd":"echo ready; exec sleep 60","yield_time_ms":250}`)
	subscribe := func(n int, method string) message {
		p.send(`{"jsonrpc":"2.0","id":%d,"method":"resources/%s","params":{"uri":"execbus://processes/%d"}}`, n, method, id)
		return p.answer(fmt.Sprint(n))
	}
	for n := range 3 * maxWatches { // all of one process, which count as one
		if m := subscribe(100+n, "subscribe"); m.Error != nil {
			t.Fatal(m.Error)
		}
	}
	for n := range 3*maxWatches + 1 { // one too many is no error
		if m := subscribe(1000+n, "unsubscribe"); m.Error != nil {
			t.Fatal(m.Error)
		}
	}
}

// A client need not unsubscribe from processes that have ended.
func TestSubscriptionsToEndedProcessesDoNotCount(t *testing.T) {
	p := dial(t, Options{Session: execbus.SessionOptions{MaxProcesses: 2 * maxWatches}})
	p.greet("2025-06-18", "{}")
	for i := range maxWatches + 1 {
		p.call(i, "exec_command", `{"cmd":"exec sleep 60","yield_time_ms":250}`)
	}
	var ids []int
	for range maxWatches + 1 {
		ids = append(ids, int(p.next().Result.Structured["session_id"].(float64)))
	}
	subscribe := func(n, id int) message {
		p.send(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":"execbus://processes/%d"}}`, n, id)
		return p.answer(fmt.Sprint(n))
	}
	for i, id := range ids[:maxWatches] {
		if m := subscribe(1000+i, id); m.Error != nil {
			t.Fatalf("subscription %d: %+v", i+1, m.Error)
		}
	}
	if m := subscribe(2000, ids[maxWatches]); m.Error == nil {
		t.Fatal("there is no bound")
	}
	p.call(2001, "terminate_process", fmt.Sprintf(`{"session_id":%d,"grace_ms":0}`, ids[0]))
	p.answer("2001")
	n := 3000
	expect.Eventually(t, "the ended process does not count", func() bool {
		n++
		return subscribe(n, ids[maxWatches]).Error == nil
	})
}

// A session that could not be opened is opened by a later call.
func TestAFailureToOpenTheSessionDoesNotLast(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	p := dial(t, Options{Session: execbus.SessionOptions{Dir: dir}})
	p.greet("2025-06-18", "{}")
	p.call(1, "exec_command", `{"cmd":"pwd"}`)
	if m := p.answer("1"); !m.Result.IsError || !strings.Contains(m.text(), "no directory of this name") {
		t.Fatalf("%+v", m)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p.call(2, "exec_command", `{"cmd":"pwd"}`)
	if m := p.answer("2"); m.Result.IsError || !strings.Contains(m.text(), dir) {
		t.Fatalf("%+v", m)
	}
}

// Of two calls that list the processes at the same time, the one that asked first may write the list last.
func TestAnOlderListReplacesNoNewerOne(t *testing.T) {
	c := newServer(t, Options{}).newConversation(func() {})
	defer c.close()
	o, err := c.open()
	if err != nil {
		t.Fatal(err)
	}
	start := func() messages.ProcessID {
		p, err := o.session.Start(t.Context(), messages.ExecCommand{Argv: []string{"sleep", "60"}})
		if err != nil {
			t.Fatal(err)
		}
		return p.ID()
	}
	first := start()
	c.listed.mu.Lock()
	listed := make(chan struct{})
	go func() { c.list(t.Context(), first); close(listed) }()
	waits := regexp.MustCompile(`Mutex\)\.Lock\S*\(.*\n.*\n(.*\n.*\n)?\S*\(\*conversation\)\.list\(`)
	expect.Eventually(t, "the older call waits for its turn", func() bool {
		stacks := make([]byte, 1<<20)
		return waits.Match(stacks[:runtime.Stack(stacks, true)])
	})
	second := start()
	c.listed.all = map[messages.ProcessID]bool{first: true, second: true} // by a newer call
	c.listed.mu.Unlock()
	<-listed
	if !c.listed.all[second] {
		t.Error("a process that runs is not listed any more")
	}
}

// All output can be read in pages, and a result that leaves some out links to the first one.
func TestAllOutputIsAResourceInPages(t *testing.T) {
	for version, links := range map[string]int{"2025-11-25": 1, "2025-03-26": 0} {
		p := dial(t, Options{})
		p.greet(version, "{}")
		const line, lines = "é is a line\n", 90_000
		p.call(1, "exec_command", fmt.Sprintf(`{"cmd":"yes 'é is a line' | head -n %d","yield_time_ms":30000}`, lines))
		m := p.answer("1")
		if len(m.Result.Content) != 1+links {
			t.Fatalf("%s: %d parts", version, len(m.Result.Content))
		}
		if links == 0 {
			continue
		}
		var all strings.Builder
		n := 2
		for next, more := any(m.Result.Content[1].URI), true; more; n++ {
			p.send(`{"jsonrpc":"2.0","id":%d,"method":"resources/read","params":{"uri":%q}}`, n, next)
			page := p.answer(fmt.Sprint(n)).Result
			all.WriteString(page.Contents[0].Text)
			if total, is := page.Meta[totalKey].(float64); !is || int(total) != lines*len(line) || len(page.Contents[0].Text) > resourceTail {
				t.Fatalf("%v: %d bytes, %v", next, len(page.Contents[0].Text), page.Meta)
			}
			next, more = page.Meta[nextKey]
		}
		if all.String() != strings.Repeat(line, lines) {
			t.Errorf("%d bytes of %d in %d pages", all.Len(), lines*len(line), n-2)
		}
		first := strings.TrimSuffix(m.Result.Content[1].URI, "0")
		for _, wrong := range []string{first + "-1", first + "01", first + "99999999", first, "execbus://processes/1/output/0"} {
			n++
			p.send(`{"jsonrpc":"2.0","id":%d,"method":"resources/read","params":{"uri":%q}}`, n, wrong)
			if answer := p.answer(fmt.Sprint(n)); answer.Error == nil {
				t.Errorf("%s is a page", wrong)
			}
		}
	}
}
