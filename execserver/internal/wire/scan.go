package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	tokens "github.com/segmentio/encoding/json"
)

// member is one name of an object with its value, as text that is valid JSON.
type member struct {
	name  string
	value []byte
}

// members checks that text is one JSON object within the bounds, and returns its members. Unlike encoding/json it refuses text that is
// not UTF-8, too many or too deeply nested values, and names that occur twice, because two readers might choose different values.
func members(text []byte) (list []member, err error) {
	switch trimmed := bytes.TrimLeft(text, " \t\r\n"); {
	case len(trimmed) == 0 || trimmed[0] != '{':
		return nil, errors.New("it is not a JSON object")
	case !utf8.Valid(text):
		return nil, errors.New("the text is not UTF-8")
	}
	var open []map[string]bool // the names of each object around the token; nil for an array
	values, begin := -1, 0     // the object itself does not count
	for t := tokens.NewTokenizer(text); t.Next(); {
		end := len(text) - t.Remaining()
		inside := len(open) - 1
		if inside == 0 && len(list) > 0 && (t.Delim == ',' || t.Delim == '}') {
			list[len(list)-1].value = bytes.TrimSpace(text[begin : end-1])
		}
		switch {
		case t.Delim == ':':
			if inside == 0 {
				begin = end
			}
			continue
		case t.Delim == ',':
			continue
		case t.Delim == '}' || t.Delim == ']':
			open = open[:inside]
			continue
		case t.Delim == '{':
			open = append(open, map[string]bool{})
		case t.Delim == '[':
			open = append(open, nil)
		case t.IsKey && inside >= 0 && open[inside] != nil && t.Value.String():
			name := unquote(t.Value)
			if open[inside][name] {
				return nil, fmt.Errorf("the name %.40q occurs twice in one object", name)
			}
			if open[inside][name] = true; inside == 0 {
				list = append(list, member{name: name})
			}
			continue
		}
		if values++; values > MaxValues {
			return nil, fmt.Errorf("there are more than %d values", MaxValues)
		}
		if len(open) > MaxDepth {
			return nil, fmt.Errorf("it is nested deeper than %d levels", MaxDepth)
		}
	}
	if !tokens.Valid(text) { // the tokens alone may be in any order
		return nil, notJSON(text)
	}
	return list, nil
}

// notJSON says why a text is not JSON.
func notJSON(text []byte) error {
	err := json.Unmarshal(text, new(json.RawMessage))
	if wrong, is := errors.AsType[*json.SyntaxError](err); is && !strings.HasPrefix(wrong.Error(), "unexpected end") {
		return fmt.Errorf("it is not JSON at byte %d", wrong.Offset-1)
	}
	return errors.New("the JSON text ends too early")
}

// unquote returns the text of a string that is valid JSON.
func unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var text string
	_ = json.Unmarshal(quoted, &text) // it is valid
	return text
}
