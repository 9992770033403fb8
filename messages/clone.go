package messages

import "reflect"

// Clone makes a deep copy, which shares no memory with its original. A receiver of a request keeps a clone, because the sender may go
// on using the lists, maps and pointers in the request.
func Clone[T any](request T) T {
	unshare(reflect.ValueOf(&request).Elem())
	return request
}

// unshare replaces what a value points to by copies. A test sees to it that requests have no values of other kinds.
func unshare(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			own := reflect.New(v.Type().Elem())
			own.Elem().Set(v.Elem())
			unshare(own.Elem())
			v.Set(own)
		}
	case reflect.Slice: // of texts, bytes or structs
		if !v.IsNil() {
			own := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(own, v)
			if v.Type().Elem().Kind() == reflect.Struct {
				for i := range own.Len() {
					unshare(own.Index(i))
				}
			}
			v.Set(own)
		}
	case reflect.Map: // of texts
		if !v.IsNil() {
			own := reflect.MakeMapWithSize(v.Type(), v.Len())
			for key, value := range v.Seq2() {
				own.SetMapIndex(key, value)
			}
			v.Set(own)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			unshare(v.Field(i))
		}
	}
}
