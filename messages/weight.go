package messages

import (
	"net/netip"
	"reflect"
	"time"
)

// Weight is how many bytes of memory an event keeps alive beside itself: texts, bytes and lists with their whole capacity, even if
// other events share them.
func Weight(e Event) int { return beside(reflect.ValueOf(e)) }

// beside is how many bytes a value keeps alive beside itself. A test sees to it that events have no values of other kinds.
func beside(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Slice:
		of := v.Type().Elem()
		if n = v.Cap() * int(of.Size()); of.Kind() == reflect.Uint8 {
			return n
		}
		for i := range v.Len() {
			n += beside(v.Index(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return int(v.Type().Elem().Size()) + beside(v.Elem())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() || v.Type() == reflect.TypeFor[netip.AddrPort]() {
			return 0 // what they point to is shared
		}
		for i := range v.NumField() {
			n += beside(v.Field(i))
		}
	}
	return n
}
