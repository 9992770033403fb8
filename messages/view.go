package messages

import "fmt"

// View is the form in which an answer shows output. Offsets, Output and Chunks are those of the bytes in every view. Package view has
// what each view shows.
type View string

// The views. The empty one is the session's default for results, and none for a ReadOutput.
const (
	// ViewRaw shows the bytes as they came, as UTF-8.
	ViewRaw View = "raw"
	// ViewText shows what a person would find scrolling back: without escape sequences, a progress bar in its last state. While a program
	// has the alternate screen of its terminal on, as editors and pagers do, the screen is shown instead.
	ViewText View = "text"
	// ViewScreen shows the screen of the terminal as it was behind the output. Pipes have none: their output is shown as text.
	ViewScreen View = "screen"
)

// Check returns an error for a view that there is not.
func (v View) Check() error { return v.check("configure") }

func (v View) check(op string) error {
	switch v {
	case "", ViewRaw, ViewText, ViewScreen:
		return nil
	}
	return contradiction(op, "view", fmt.Sprintf("there is no %q; use raw, text or screen", string(v)))
}

// Shown is output in a view.
type Shown struct {
	// View is ViewText or ViewScreen.
	View View `json:"view"`
	// Text is valid UTF-8, without control characters but \n and \t. Bytes were dropped behind its first Head bytes, if they were in the
	// Output that it shows; a screen shows no omission.
	Text string `json:"text"`
	Head int    `json:"head,omitempty"`
}
