package messages

// WatchTerminal says that somebody begins, or ends, to see the screen of a process on a terminal, so that the position of the cursor is
// known: until the last one ends it, what the program asks about that waits up to five seconds for PlaceCursor, and is then answered
// with the top left, as where nobody watches. It concerns only terminals that execbus answers for on this machine.
type WatchTerminal struct {
	Process ProcessID `json:"process"`
	Over    bool      `json:"over,omitempty"` // one that has begun ends
}

// PlaceCursor says where the cursor was when a program asked. Requests that nobody made, or that are answered, are ignored. At most
// MaxCursorPositions count, the last ones.
type PlaceCursor struct {
	Process   ProcessID        `json:"process"`
	Positions []CursorPosition `json:"positions"`
}

// MaxCursorPositions bounds PlaceCursor.Positions: a terminal gives no more answers in a second.
const MaxCursorPositions = 100

// CursorPosition is where the cursor was after so many bytes of output. Rows and columns begin with 1.
type CursorPosition struct {
	Offset int64  `json:"offset"`
	Row    uint16 `json:"row"`
	Col    uint16 `json:"col"`
}
