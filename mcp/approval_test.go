package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/execbus/execbus/tests/expect"
)

// generations are three protocol versions: one with sessions in which a choice has no titles, one with sessions in which it
// has, and the one without sessions.
var generations = []string{"2025-06-18", "2025-11-25", "2026-07-28"}

// person makes a client with a person in front of it.
func person(answer func(*sdk.ElicitParams) *sdk.ElicitResult) *sdk.Client {
	return sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(_ context.Context, request *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return answer(request.Params), nil
		}})
}

// says answers every question with one decision.
func says(decision, reason string) func(*sdk.ElicitParams) *sdk.ElicitResult {
	return func(*sdk.ElicitParams) *sdk.ElicitResult {
		return &sdk.ElicitResult{Action: "accept", Content: map[string]any{fieldDecision: decision, fieldReason: reason}}
	}
}

// choices returns the choices of a form and their titles.
func choices(t *testing.T, params *sdk.ElicitParams, version string) (kinds, titles []string) {
	t.Helper()
	encoded, err := json.Marshal(params.RequestedSchema)
	if err != nil {
		t.Error(err)
	}
	var schema struct {
		Properties struct {
			Decision struct {
				Enum      []string
				EnumNames []string
				OneOf     []struct{ Const, Title string }
			}
		}
	}
	if err := json.Unmarshal(encoded, &schema); err != nil {
		t.Error(err)
	}
	d := schema.Properties.Decision
	if titled := len(d.OneOf) > 0; titled != (version >= titledChoices) || titled == (len(d.Enum) > 0) {
		t.Errorf("that is not the form of version %s: %s", version, encoded)
	}
	for _, one := range d.OneOf {
		kinds, titles = append(kinds, one.Const), append(titles, one.Title)
	}
	return append(kinds, d.Enum...), append(titles, d.EnumNames...)
}

func TestThePersonIsAskedInEveryProtocolVersion(t *testing.T) {
	for _, version := range generations {
		t.Run(version, func(t *testing.T) {
			var asked atomic.Int32
			client := person(func(params *sdk.ElicitParams) *sdk.ElicitResult {
				asked.Add(1)
				kinds, titles := choices(t, params, version)
				for _, kind := range []string{"approved", "approved_for_session", "denied", "abort"} {
					if !slices.Contains(kinds, kind) {
						t.Errorf("%s is no choice of %v", kind, kinds)
					}
				}
				expect.Contains(t, strings.Join(titles, "\n"), "Run it this once", "do not ask about it again in this session: ")
				expect.Contains(t, params.Message, "Run this command?", "sleep 0", "Directory: /tmp", "Reason: ")
				return says("approved_for_session", "")(params)
			})
			session := connect(t, untrusted(), client, version)
			for range 2 { // the second one is not asked about
				result := call(t, session, "exec_command", map[string]any{"cmd": "sleep 0; echo ran", "workdir": "/tmp"})
				if expect.Contains(t, textOf(result), "ran\n"); result.IsError {
					t.Error(textOf(result))
				}
			}
			if n := asked.Load(); n != 1 {
				t.Errorf("it was asked %d times", n)
			}
		})
	}
}

func TestAnswersThatAreNoApprovalReject(t *testing.T) {
	answers := map[string]struct {
		answer func(*sdk.ElicitParams) *sdk.ElicitResult
		code   string
		says   string
	}{
		"denied":    {says("denied", "use make instead"), "rejected", "use make instead"},
		"abort":     {says("abort", ""), "aborted", "Stop here and wait for the user"},
		"declined":  {func(*sdk.ElicitParams) *sdk.ElicitResult { return &sdk.ElicitResult{Action: "decline"} }, "rejected", "rejected by user"},
		"dismissed": {func(*sdk.ElicitParams) *sdk.ElicitResult { return &sdk.ElicitResult{Action: "cancel"} }, "rejected", "dismissed"},
		"empty":     {func(*sdk.ElicitParams) *sdk.ElicitResult { return &sdk.ElicitResult{Action: "accept"} }, "rejected", "not one of the choices"},
		"unheard":   {says("approve everything", ""), "rejected", ""},
	}
	for _, version := range generations {
		for name, test := range answers {
			t.Run(version+" "+name, func(t *testing.T) {
				session := connect(t, untrusted(), person(test.answer), version)
				result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "exec_command", Arguments: map[string]any{"cmd": "sleep 0; echo ran"}})
				if err != nil {
					if name != "unheard" { // for this one the library's client refuses its own answer
						t.Fatal(err)
					}
					return
				}
				if !result.IsError || result.Meta[codeKey] != test.code || strings.Contains(textOf(result), "ran\n") {
					t.Errorf("%v: %s", result.Meta, textOf(result))
				}
				expect.Contains(t, textOf(result), test.says)
			})
		}
	}
}

func TestAClientThatCannotAskGetsTheAnswerOfThePolicyAtOnce(t *testing.T) {
	for _, version := range generations {
		session := connect(t, untrusted(), sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil), version)
		result := call(t, session, "exec_command", map[string]any{"cmd": "sleep 0; echo ran"})
		if !result.IsError || result.Meta[codeKey] != "rejected" {
			t.Errorf("%s: %v %s", version, result.Meta, textOf(result))
		}
		if result = call(t, session, "exec_command", map[string]any{"cmd": "echo safe"}); result.IsError {
			t.Errorf("%s: what is known to be safe does not run: %s", version, textOf(result))
		}
	}
}

// If calls are made at the same time, their questions come one after the other.
func TestQuestionsComeOneAtATime(t *testing.T) {
	for _, version := range generations {
		t.Run(version, func(t *testing.T) {
			var open, most atomic.Int32
			client := person(func(params *sdk.ElicitParams) *sdk.ElicitResult {
				most.Store(max(most.Load(), open.Add(1)))
				defer open.Add(-1)
				time.Sleep(20 * time.Millisecond) // long enough to see a second question
				return says("approved", "")(params)
			})
			session := connect(t, untrusted(), client, version)
			results := make(chan string)
			for i := range 5 {
				go func() {
					result, err := session.CallTool(context.Background(), &sdk.CallToolParams{Name: "exec_command", Arguments: map[string]any{"cmd": fmt.Sprintf("sleep 0.00%d; echo ran", i)}})
					if err != nil {
						results <- err.Error()
						return
					}
					results <- textOf(result)
				}()
			}
			for range 5 {
				expect.Contains(t, <-results, "ran\n")
			}
			if most.Load() != 1 {
				t.Errorf("%d questions at once", most.Load())
			}
		})
	}
}

// modern is the metadata of each request in the protocol without sessions.
const modern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`

// question makes a call and returns the state of the question that answers it.
func (p *peer) question(id int, arguments string) string {
	p.t.Helper()
	p.send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"exec_command","arguments":%s,%s}}`, id, arguments, modern)
	var m struct {
		Result struct {
			ResultType    string
			RequestState  string
			InputRequests map[string]struct{ Method string }
		}
	}
	if line := p.line(); json.Unmarshal([]byte(line), &m) != nil || m.Result.ResultType != "input_required" || m.Result.RequestState == "" ||
		m.Result.InputRequests[approvalKey].Method != "elicitation/create" {
		p.t.Fatalf("that is no question: %s", line)
	}
	return m.Result.RequestState
}

func (p *peer) reply(id int, state, decision string) message {
	p.t.Helper()
	p.send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"exec_command","arguments":{"cmd":"other"},"requestState":%q,`+
		`"inputResponses":{"approval":{"action":"accept","content":{"decision":%q}}},%s}}`, id, state, decision, modern)
	return p.answer(fmt.Sprint(id))
}

func TestAQuestionIsAResultAndItsAnswerARequest(t *testing.T) {
	p := dial(t, untrusted())
	state := p.question(1, `{"cmd":"sleep 0; echo the one that was asked about"}`)
	if m := p.reply(2, "guessed", "approved"); !m.Result.IsError {
		t.Errorf("a state that nobody gave: %+v", m)
	}
	if m := p.reply(3, state, "approved"); m.Result.IsError || !strings.Contains(m.text(), "the one that was asked about\n") {
		t.Errorf("%+v", m)
	}
	if m := p.reply(4, state, "approved"); !m.Result.IsError || m.Result.Meta[codeKey] != "already_resolved" {
		t.Errorf("the same answer twice: %+v", m)
	}
	state = p.question(5, `{"cmd":"sleep 0.001; echo ran"}`)
	p.send(`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"exec_command","arguments":{},"requestState":%q,%s}}`, state, modern)
	if m := p.answer("6"); !m.Result.IsError || m.Result.Meta[codeKey] != "rejected" {
		t.Errorf("a request without an answer: %+v", m)
	}
}

func TestACommandDoesNotWaitForEverForItsAnswer(t *testing.T) {
	options := untrusted()
	options.QuestionPatience = 50 * time.Millisecond
	p := dial(t, options)
	state := p.question(1, `{"cmd":"sleep 0; echo ran"}`)
	list := func(id int) message {
		p.send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"list_processes","arguments":{},%s}}`, id, modern)
		return p.answer(fmt.Sprint(id))
	}
	id := 10
	expect.Eventually(t, "the command is given up", func() bool { id++; return strings.Contains(list(id).text(), "Processes: 0") })
	if m := p.reply(2, state, "approved"); !m.Result.IsError || strings.Contains(m.text(), "ran\n") {
		t.Errorf("an answer that comes too late: %+v", m)
	}
}

func TestAQuestionThatWaitsEndsWithTheConversation(t *testing.T) {
	p := dial(t, untrusted())
	p.question(1, `{"cmd":"sleep 0"}`)
	p.hangUp()
}

// A client cancels a call while its question is open. The question is withdrawn, and the command never runs.
func TestCancellingACallTakesItsQuestionBack(t *testing.T) {
	p := dial(t, untrusted())
	p.greet("2025-11-25", `{"elicitation":{}}`)
	p.call(1, "exec_command", `{"cmd":"sleep 0; echo ran"}`)
	var asked struct {
		ID     int
		Method string
	}
	if line := p.line(); json.Unmarshal([]byte(line), &asked) != nil || asked.Method != "elicitation/create" {
		t.Fatal(line)
	}
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	if m := p.answer("1"); m.Error == nil && !m.Result.IsError {
		t.Errorf("%+v", m)
	}
	p.send(`{"jsonrpc":"2.0","id":%d,"result":{"action":"accept","content":{"decision":"approved"}}}`, asked.ID)
	p.call(2, "list_processes", `{"include_ended":true}`)
	if m := p.answer("2"); strings.Contains(m.text(), "exited") {
		t.Errorf("it ran: %s", m.text())
	}
}
