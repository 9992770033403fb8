package ask

// keys follows typed input through escape sequences.
type keys struct {
	state state
	begun bool // a control sequence has nothing yet
	left  int  // bytes that belong to a sequence behind its end
}

type state int

const (
	ground   state = iota
	escaped        // behind ESC
	numbered       // in a control sequence: ESC [
	sentence       // in a string: ESC ], ESC P and others
)

// take reports whether a chunk is a single key that is no part of an escape sequence.
func (k *keys) take(chunk []byte) (single bool) {
	single = len(chunk) == 1 && k.state == ground && k.left == 0 && chunk[0] != 0x1b
	for _, b := range chunk {
		switch {
		case k.left > 0:
			k.left--
		case b == 0x18 || b == 0x1a: // CAN and SUB end any
			k.state = ground
		case b == 0x1b:
			k.state = escaped
		case k.state == escaped:
			k.escape(b)
		case k.state == numbered && b >= '@' && b <= '~':
			k.state = ground
			if b == 'M' && k.begun { // an old report of the mouse: three bytes follow
				k.left = 3
			}
		case k.state == numbered:
			k.begun = false
		case k.state == sentence && b == '\a':
			k.state = ground
		}
	}
	return single
}

func (k *keys) escape(b byte) {
	k.state = ground
	switch b {
	case '[':
		k.state, k.begun = numbered, true
	case ']', 'P', '_', '^', 'X':
		k.state = sentence
	case 'O', 'N':
		k.left = 1
	}
}
