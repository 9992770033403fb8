package view_test

import (
	"fmt"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/view"
)

func ExampleTextOf() {
	size := messages.Size{Rows: 24, Cols: 80} // of the terminal; the zero Size is that of pipes
	output := "\x1b[1mfetching\x1b[m  10%\rfetching  99%\rfetching 100%\r\n\x1b[32mdone\x1b[m\r\n"
	fmt.Printf("%s", view.TextOf([]byte(output), size))
	// Output:
	// fetching 100%
	// done
}

func ExampleScreen() {
	s := view.NewScreen(messages.Size{Rows: 3, Cols: 12})
	fmt.Fprint(s, "\x1b[?1049h\x1b]0;menu\x07\x1b[2;3H\x1b[7m first \x1b[m\x1b[3;3H second")
	fmt.Printf("%q, full screen: %v, cursor: %+v\n", s.Title(), s.FullScreen(), s.Cursor())
	fmt.Printf("%q\n", s.Text())
	// Output:
	// "menu", full screen: true, cursor: {Row:2 Col:9 Visible:true}
	// "\n   first\n   second\n"
}

func ExampleText() {
	t := view.NewText(messages.Size{Rows: 2, Cols: 20})
	var final []byte
	for _, piece := range []string{"one\r\ntwo: 1", "0%\rtwo: 20%", "\r\nthree\r\n"} {
		final = t.Append(final, []byte(piece))
		fmt.Printf("final %q, rest %q\n", final, t.AppendRest(nil))
	}
	// Output:
	// final "", rest "one\ntwo: 1"
	// final "", rest "one\ntwo: 20%"
	// final "one\ntwo: 20%\n", rest "three\n"
}
