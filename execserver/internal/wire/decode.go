package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	tokens "github.com/segmentio/encoding/json"
)

// DecodeParams reads parameters or a result. Its error is a *Fault that names the field. Unknown members are ignored, except in a
// field with the tag "strict", where ignoring one might grant more than was meant.
func DecodeParams(raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	if err := decode(raw, into, "params", false); err != nil {
		return Refuse(InvalidParams, "%s", err)
	}
	return nil
}

// decode reads a value that is valid JSON through a pointer. The path names the value in errors. If it is strict, only known members
// are allowed, here and below.
func decode(raw []byte, into any, path string, strict bool) error {
	target := reflect.ValueOf(into).Elem()
	custom, itself := into.(json.Unmarshaler)
	switch {
	case string(raw) == "null":
		return fmt.Errorf("%s is null", path)
	case itself: // json.Unmarshal would scan every byte two more times
		if err := custom.UnmarshalJSON(raw); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	case target.Kind() == reflect.Pointer:
		target.Set(reflect.New(target.Type().Elem()))
		return decode(raw, target.Interface(), path, strict)
	case target.Kind() == reflect.Slice && target.Type().Elem().Kind() == reflect.Struct:
		return decodeSlice(raw, target, path, strict)
	case target.Kind() != reflect.Struct:
		return decodeValue(raw, into, path)
	}
	if err := decodeStruct(raw, target, path, strict); err != nil {
		return err
	}
	if checked, is := into.(interface{ Check() error }); is {
		if err := checked.Check(); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// decodeSlice reads an array of objects. An array of anything else is decodeValue's.
func decodeSlice(raw []byte, target reflect.Value, path string, strict bool) error {
	var elements []json.RawMessage
	if err := decodeValue(raw, &elements, path); err != nil {
		return err
	}
	target.Set(reflect.MakeSlice(target.Type(), len(elements), len(elements)))
	for i, element := range elements {
		if err := decode(element, target.Index(i).Addr().Interface(), fmt.Sprintf("%s[%d]", path, i), strict); err != nil {
			return err
		}
	}
	return nil
}

func decodeValue(raw []byte, into any, path string) error {
	err := json.Unmarshal(raw, into)
	if err == nil {
		return nil
	}
	if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		return fmt.Errorf("%s is not %s", path, describe(wrong.Type))
	}
	return fmt.Errorf("%s: %w", path, err)
}

// describe names the JSON form of a type's values.
func describe(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number from 0 on, in range"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number, in range"
	case reflect.Slice, reflect.Array:
		return "an array"
	default:
		return "an object"
	}
}

func decodeStruct(raw []byte, target reflect.Value, path string, strict bool) error {
	if raw[0] != '{' {
		return fmt.Errorf("%s is not an object", path)
	}
	list, err := members(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	given := make(map[string][]byte, len(list))
	for _, m := range list {
		given[m.name] = m.value
	}
	for i := range target.NumField() {
		field := target.Type().Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		value, there := given[name]
		delete(given, name)
		switch {
		case !there && strings.HasPrefix(options, "omit"), field.Type.Kind() == reflect.Pointer && string(value) == "null":
			continue
		case !there:
			return fmt.Errorf("%s.%s is missing", path, name)
		}
		_, strictly := field.Tag.Lookup("strict")
		if err := decode(value, target.Field(i).Addr().Interface(), path+"."+name, strict || strictly); err != nil {
			return err
		}
	}
	for name := range given {
		if strict {
			return fmt.Errorf("%s.%.40s is not known", path, name)
		}
	}
	return nil
}

// member is one name of an object with its value, as text that is valid JSON.
type member struct {
	name  string
	value []byte
}

var errValues = fmt.Errorf("there are more than %d values", MaxValues)

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
	names := 0                 // more than values only if the text is not JSON
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
			if names++; names > MaxValues {
				return nil, errValues
			}
			if open[inside][name] {
				return nil, fmt.Errorf("the name %.40q occurs twice in one object", name)
			}
			if open[inside][name] = true; inside == 0 {
				list = append(list, member{name: name})
			}
			continue
		}
		if values++; values > MaxValues {
			return nil, errValues
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
