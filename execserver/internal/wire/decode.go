package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Checker is implemented by types that check their values.
type Checker interface{ Check() error }

// DecodeParams reads parameters or a result. Its error is a *Fault that names the field. Unknown members are ignored, except in a
// field with the tag "strict", where ignoring one might grant more than was meant.
func DecodeParams(raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	if err := decode(raw, into, "params", rules{}); err != nil {
		return Refuse(InvalidParams, "%s", err)
	}
	return nil
}

// rules say what a value may be.
type rules struct {
	null   bool // null, which means no value
	strict bool // only known members, here and below
}

// decode reads a value that is valid JSON through a pointer. The path names the value in errors.
func decode(raw []byte, into any, path string, may rules) error {
	target := reflect.ValueOf(into).Elem()
	custom, itself := into.(json.Unmarshaler)
	switch {
	case may.null && string(raw) == "null":
		return nil
	case string(raw) == "null":
		return fmt.Errorf("%s is null", path)
	case itself: // json.Unmarshal would scan every byte two more times
		if err := custom.UnmarshalJSON(raw); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	case target.Kind() == reflect.Slice && target.Type().Elem().Kind() == reflect.Struct:
		return decodeSlice(raw, target, path, may.strict)
	case target.Kind() != reflect.Struct && target.Kind() != reflect.Pointer:
		return decodeValue(raw, into, path)
	case target.Kind() == reflect.Pointer:
		fresh := reflect.New(target.Type().Elem())
		if err := decode(raw, fresh.Interface(), path, rules{strict: may.strict}); err != nil {
			return err
		}
		target.Set(fresh)
		return nil
	}
	if err := decodeStruct(raw, target, path, may.strict); err != nil {
		return err
	}
	if checked, is := into.(Checker); is {
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
		if err := decode(element, target.Index(i).Addr().Interface(), fmt.Sprintf("%s[%d]", path, i), rules{strict: strict}); err != nil {
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
		case !there && strings.HasPrefix(options, "omit"):
			continue
		case !there:
			return fmt.Errorf("%s.%s is missing", path, name)
		}
		_, strictly := field.Tag.Lookup("strict")
		may := rules{null: field.Type.Kind() == reflect.Pointer, strict: strict || strictly}
		if err := decode(value, target.Field(i).Addr().Interface(), path+"."+name, may); err != nil {
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
