package messages_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

// checker is a request that has numbers.
type checker interface{ Check() error }

var withNumbers = []checker{messages.ExecCommand{}, messages.RunCommand{}, messages.WriteStdin{}, messages.Poll{}, messages.Terminate{},
	messages.Wait{}, messages.ReadOutput{}}

// numbersOf are the fields of a request that hold a number, by the names that they have in JSON.
func numbersOf(request checker) map[string]int {
	found := map[string]int{}
	for i, field := range reflect.VisibleFields(reflect.TypeOf(request)) {
		of := field.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if len(field.Index) == 1 && field.Type != reflect.TypeFor[messages.ProcessID]() && (of.Kind() == reflect.Int64 || of.Kind() == reflect.Int) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			found[name] = i
		}
	}
	return found
}

// with is a copy of a request with one number.
func with(request checker, name string, value int64) checker {
	changed := reflect.New(reflect.TypeOf(request)).Elem()
	changed.Set(reflect.ValueOf(request))
	field, _ := changed.Type().FieldByNameFunc(func(goName string) bool {
		f, _ := changed.Type().FieldByName(goName)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		return tag == name
	})
	target := changed.FieldByIndex(field.Index)
	if target.Kind() == reflect.Pointer {
		target.Set(reflect.New(target.Type().Elem()))
		target = target.Elem()
	}
	target.SetInt(value)
	return changed.Interface().(checker)
}

func TestNegativeNumbersAreRefusedByName(t *testing.T) {
	for _, request := range withNumbers {
		names := numbersOf(request)
		if len(names) == 0 {
			t.Errorf("%T has no number", request)
		}
		if err := request.Check(); err != nil {
			t.Errorf("an empty %T is refused: %v", request, err)
		}
		delete(names, "line") // it counts from the end if it is negative
		for name := range names {
			for _, value := range []int64{-1, math.MinInt64} {
				err, is := errors.AsType[*messages.Error](with(request, name, value).Check())
				if !is || err.Code != messages.ErrInvalidRequest || err.Subject != strings.TrimSuffix(name, "Ns") || !strings.Contains(err.Detail, "negative") {
					t.Errorf("%T with a %s of %d: %v", request, name, value, err)
				}
			}
			for _, value := range []int64{0, 1, math.MaxInt64} {
				if err := with(request, name, value).Check(); err != nil {
					t.Errorf("%T with a %s of %d: %v", request, name, value, err)
				}
			}
		}
	}
}

func TestZeroIsNotTheSameAsNothingInJSON(t *testing.T) {
	for _, c := range []struct {
		text string
		want messages.ExecCommand
	}{
		{`{}`, messages.ExecCommand{}},
		{`{"yieldNs":0,"graceNs":0,"maxOutputTokens":0,"maxOutputBytes":0}`, messages.ExecCommand{Yield: new(time.Duration),
			Grace: new(time.Duration), MaxOutputTokens: new(int), MaxOutputBytes: new(int)}},
		{`{"yieldNs":1000000000,"maxOutputTokens":7}`, messages.ExecCommand{Yield: new(time.Second), MaxOutputTokens: new(7)}},
	} {
		var got messages.ExecCommand
		if err := json.Unmarshal([]byte(c.text), &got); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s became %+v, %v", c.text, got, err)
		}
		again, err := json.Marshal(got)
		var back messages.ExecCommand
		if err != nil || json.Unmarshal(again, &back) != nil || !reflect.DeepEqual(back, c.want) {
			t.Errorf("%s became %s, %v", c.text, again, err)
		}
	}
}

func TestWhatContradictsAnEndlessWaitIsRefused(t *testing.T) {
	zero := new(time.Duration)
	for _, c := range []struct {
		request checker
		subject string
	}{
		{messages.Poll{NoTimeout: true, Yield: zero}, "yield"},
		{messages.WriteStdin{NoTimeout: true, Yield: zero}, "yield"},
		{messages.WriteStdin{NoTimeout: true, Bytes: []byte("x")}, "noTimeout"},
		{messages.WriteStdin{NoTimeout: true, UntilTaken: true}, "noTimeout"},
		{messages.WriteStdin{NoWait: true, UntilTaken: true}, "noWait"},
		{messages.WriteStdin{NoWait: true, NoTimeout: true}, "noWait"},
		{messages.WriteStdin{NoWait: true, Yield: zero}, "noWait"},
	} {
		if err, is := errors.AsType[*messages.Error](c.request.Check()); !is || err.Code != messages.ErrInvalidRequest || err.Subject != c.subject {
			t.Errorf("%+v: %v", c.request, err)
		}
	}
	for _, fine := range []checker{messages.Poll{NoTimeout: true}, messages.WriteStdin{NoTimeout: true}, messages.WriteStdin{NoWait: true}} {
		if err := fine.Check(); err != nil {
			t.Errorf("%+v: %v", fine, err)
		}
	}
}
