package view_test

import (
	"reflect"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/view"
)

func TestARowHasSpansThatLookTheSame(t *testing.T) {
	s := view.NewScreen(messages.Size{Rows: 3, Cols: 20})
	_, _ = s.Write([]byte("a<b>\x1b[1;31mred\x1b[0m\x1b[7;4:3mx\x1b[0m\r\n\x1b[48;2;1;2;3m漢\x1b[0m\u202ez"))
	for y, want := range [][]view.Span{
		{{Text: "a<b>", Cols: 4}, {Text: "red", Cols: 3, Foreground: "#cd0000", Look: "bold"}, {Text: "x", Cols: 1, Foreground: "#1c1c1c", Background: "#d0d0d0", Look: "curly"}},
		{{Text: "漢\ufffd", Cols: 2, Background: "#010203"}, {Text: "z", Cols: 1}}, // what has no width belongs to what is before it
		nil,
		nil, // outside
	} {
		if got := s.Row(y); !reflect.DeepEqual(got, want) {
			t.Errorf("row %d: %+v, want %+v", y, got, want)
		}
	}
	if s.Row(-1) != nil {
		t.Error("there is a row above the screen")
	}
}
