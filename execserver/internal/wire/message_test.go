package wire

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestMessagesAreToldApart(t *testing.T) {
	for text, want := range map[string]Message{
		`{"id":1,"method":"a/b","params":{"x":1}}`:              {Kind: Request, ID: NumberID(1), Method: "a/b", Params: json.RawMessage(`{"x":1}`)},
		` {"method":"n" , "id":"q\u0041"} ` + "\n":              {Kind: Request, ID: ID{`"qA"`}, Method: "n"},
		`{"method":"n","params":null}`:                          {Kind: Notification, Method: "n", Params: json.RawMessage(`null`)},
		`{"jsonrpc":"2.0","method":"n","trace":[{}]}`:           {Kind: Notification, Method: "n"},
		`{"id":-9223372036854775808,"result":null}`:             {Kind: Response, ID: NumberID(-1 << 63), Result: json.RawMessage(`null`)},
		`{"id":null,"method":"m"}`:                              {Kind: Request, ID: ID{"null"}, Method: "m"},
		`{"id":-1.50E+2,"method":"m"}`:                          {Kind: Request, ID: ID{"-1.50E+2"}, Method: "m"},
		`{"id":9223372036854775808,"method":"m"}`:               {Kind: Request, ID: ID{"9223372036854775808"}, Method: "m"},
		`{"id":2,"result":{},"error":null}`:                     {Kind: Response, ID: NumberID(2), Result: json.RawMessage(`{}`)},
		`{"id":3,"error":{"code":-32600,"message":"m","x":[]}}`: {Kind: Failure, ID: NumberID(3), Fault: &Fault{Code: -32600, Message: "m"}},
	} {
		got, err := Parse([]byte(text))
		if err != nil || describeMessage(got) != describeMessage(want) {
			t.Errorf("%s: got %s, %v", text, describeMessage(got), err)
		}
	}
}

func describeMessage(m Message) string {
	text, _ := json.Marshal(m)
	return string(text) + m.ID.String()
}

func TestWhatIsNoMessageIsRefused(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)
	numbers := func(n int) string { return "[" + strings.Repeat("1,", n-1) + "1]" }
	many := numbers(MaxValues - 1) // beside them, the array and the method count
	var names strings.Builder
	for i := range MaxValues + 1 {
		fmt.Fprintf(&names, ` "%x"`, i)
	}
	for text, why := range map[string]string{
		``: "not a JSON object", `[]`: "a batch", `"x"`: "not a JSON object", ` [{"id":1,"method":"m"}]`: "a batch",
		`{"id":1,"method":"m"`: "ends too early", `{"id":1,"method":"m}`: "ends too early", `{"id":1,,}`: "not JSON at byte 8",
		`{"id":1 "method":"m"}`: "not JSON", `{"method":"m","params":tru}`: "not JSON", `{"method":"m","params":+1}`: "not JSON",
		`{"method":"m","params":01}`: "not JSON", `{'method':1}`: "not JSON", `{"method":"m",}`: "not JSON", `{"method":"m","params":[1,]}`: "not JSON",
		`{"method":"m"}{"method":"m"}`: "not JSON at byte 14", `{"method":"m","params":"` + "\x01" + `"}`: "not JSON",
		`{"method":"m","params":"\x"}`: "not JSON", `{"method":"m","params":"` + "\xff" + `"}`: "not UTF-8",
		`{"method":"m","method":"n"}`:                      "occurs twice",
		`{"method":"m","params":{"a":{"b":1,"\u0062":2}}}`: "occurs twice",
		`{"method":"m","params":` + deep + `}`:             "nested deeper",
		`{"method":"m","params":` + many + `}`:             "more than",
		`{` + names.String():                               "more than",
		`{"id":true,"method":"m"}`:                         `"id" is neither`,
		`{"id":-,"method":"m"}`:                            "not JSON",
		`{"id":[1],"method":"m"}`:                          `"id" is neither`,
		`{"id":1,"method":7}`:                              `"method" is not a string`,
		`{"params":{}}`:                                    `neither "method" nor "id"`,
		`{"ID":1,"METHOD":"m"}`:                            `neither "method" nor "id"`,
		`{"id":1}`:                                         "none of",
		`{"id":1,"error":"no"}`:                            "error is not an object",
		`{"id":1,"error":{"code":"x","message":"m"}}`:      "error.code is not a whole number",
		`{"id":1,"error":{"code":1}}`:                      "error.message is missing",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%.60s: got %v, want %q", text, err, why)
		}
	}
	fits := strings.Repeat("[", MaxDepth-1) + strings.Repeat("]", MaxDepth-1)
	for _, fits := range []string{fits, numbers(MaxValues - 2)} {
		if _, err := Parse([]byte(`{"method":"m","params":` + fits + `}`)); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatIsAppendedIsParsed(t *testing.T) {
	request, err := AppendRequest(nil, NumberID(7), ProcessRead, ReadParams{ProcessID: "p"})
	if want := `{"id":7,"method":"process/read","params":{"processId":"p"}}`; err != nil || string(request) != want {
		t.Errorf("got %s, %v", request, err)
	}
	notification, err := AppendNotification(nil, Initialized, nil)
	if want := `{"method":"initialized"}`; err != nil || string(notification) != want {
		t.Errorf("got %s, %v", notification, err)
	}
	result, err := AppendResult(nil, ID{`"x"`}, Empty{})
	if want := `{"id":"x","result":{}}`; err != nil || string(result) != want {
		t.Errorf("got %s, %v", result, err)
	}
	failure := AppendFailure(nil, NumberID(1), &Fault{Code: Internal, Message: `a "b"`, Data: json.RawMessage("{")})
	if want := `{"id":1,"error":{"code":-32603,"message":"a \"b\""}}`; string(failure) != want {
		t.Errorf("got %s", failure)
	}
	output := AppendOutput(nil, `p"1`, 3, "stdout", []byte("hi\n"))
	m, err := Parse(output)
	var params OutputParams
	if err == nil {
		err = DecodeParams(m.Params, &params)
	}
	if err != nil || m.Kind != Notification || m.Method != ProcessOutput || fmt.Sprint(params) != fmt.Sprint(OutputParams{`p"1`, 3, "stdout", Chunk("hi\n")}) {
		t.Errorf("got %s: %v, %v", output, params, err)
	}
	if _, err := AppendRequest(nil, NumberID(1), "m", func() {}); err == nil {
		t.Error("a function was encoded")
	}
}

func TestEveryByteOfAStringIsLookedAt(t *testing.T) {
	for length := range 20 {
		for at := range length {
			for c := range 256 {
				text := []byte(strings.Repeat("x", length))
				text[at] = byte(c)
				quoted := `{"method":"m","params":"` + string(text) + `"}`
				_, err := Parse([]byte(quoted))
				if want := json.Valid([]byte(quoted)) && utf8.Valid(text); (err == nil) != want {
					t.Fatalf("byte %d at %d of %d: got %v", c, at, length, err)
				}
			}
		}
	}
}

// Pieces are put into objects, or bytes taken out of them, at random. What is left counts as JSON as in encoding/json.
func TestBrokenTextsAreToldFromJSON(t *testing.T) {
	pieces := strings.Split(`" \ { } [ ] , : 1 0 - . e true null \u00e9 \ud800 é abcdefgh "k": "k":1 ,"a":2 [{},"x","x"] `+"\x7f \x01 \xff \xc3 \n \u2028", " ")
	random := rand.New(rand.NewSource(1))
	accepted := 0
	for range 50_000 {
		text := `{"id":1,"method":"m","params":{"a":[1,-2.5e3,"x\u0041é",null,true]}, "k" : [{"x":1},"k","k"]}`
		if random.Intn(3) == 0 {
			text = "{}"
		}
		for range 1 + random.Intn(5) {
			at := random.Intn(len(text) + 1)
			if at < len(text) && random.Intn(3) == 0 {
				text = text[:at] + text[at+1:]
			} else {
				text = text[:at] + pieces[random.Intn(len(pieces))] + text[at:]
			}
		}
		_, err := members([]byte(text))
		want := json.Valid([]byte(text)) && utf8.ValidString(text) && strings.HasPrefix(strings.TrimSpace(text), "{")
		if (err == nil) != want && !(want && strings.Contains(err.Error(), "occurs twice")) {
			t.Fatalf("%q: %v", text, err)
		}
		if err == nil {
			accepted++
		}
	}
	if accepted < 1000 {
		t.Errorf("only %d texts were JSON", accepted)
	}
}
