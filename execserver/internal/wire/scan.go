package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// member is one name of an object with its value, as text that is valid JSON.
type member struct {
	name  string
	value []byte
}

// members checks that text is one JSON object within the bounds, and returns its members.
func members(text []byte) ([]member, error) {
	s := scanner{text: text}
	s.space()
	if s.at == len(text) || text[s.at] != '{' {
		return nil, errors.New("it is not a JSON object")
	}
	list, err := s.object()
	if err != nil {
		return nil, err
	}
	if s.space(); s.at < len(text) {
		return nil, fmt.Errorf("there is something behind the JSON object, at byte %d", s.at)
	}
	return list, nil
}

// scanner goes over JSON text once. Unlike encoding/json it refuses text that is not UTF-8, too many or too deeply nested values, and
// names that occur twice, because two readers might choose different values.
type scanner struct {
	text   []byte
	at     int
	values int
	depth  int
}

func (s *scanner) value() error {
	if s.values++; s.values > MaxValues {
		return fmt.Errorf("there are more than %d values", MaxValues)
	}
	switch s.peek() {
	case '{':
		_, err := s.object()
		return err
	case '[':
		return s.array()
	case '"':
		_, err := s.string()
		return err
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	default:
		return s.number()
	}
}

func (s *scanner) object() (list []member, err error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for first := true; ; first = false {
		if s.space(); first && s.take('}') {
			break
		}
		quoted, err := s.string()
		if err != nil {
			return nil, err
		}
		name := unquote(quoted)
		if seen[name] {
			return nil, fmt.Errorf("the name %.40q occurs twice in one object", name)
		}
		seen[name] = true
		if s.space(); !s.take(':') {
			return nil, s.unexpected()
		}
		s.space()
		begin := s.at
		if err := s.value(); err != nil {
			return nil, err
		}
		list = append(list, member{name, s.text[begin:s.at]})
		if s.space(); s.take('}') {
			break
		}
		if !s.take(',') {
			return nil, s.unexpected()
		}
	}
	s.depth--
	return list, nil
}

func (s *scanner) array() error {
	if err := s.enter(); err != nil {
		return err
	}
	for first := true; ; first = false {
		if s.space(); first && s.take(']') {
			break
		}
		if err := s.value(); err != nil {
			return err
		}
		if s.space(); s.take(']') {
			break
		}
		if !s.take(',') {
			return s.unexpected()
		}
		s.space()
	}
	s.depth--
	return nil
}

// enter steps behind an opening bracket.
func (s *scanner) enter() error {
	s.at++
	if s.depth++; s.depth > MaxDepth {
		return fmt.Errorf("it is nested deeper than %d levels", MaxDepth)
	}
	return nil
}

// string returns a string with its quotes.
func (s *scanner) string() ([]byte, error) {
	begin := s.at
	if !s.take('"') {
		return nil, s.unexpected()
	}
	if end := bytes.IndexByte(s.text[s.at:], '"'); end >= 0 && plain(s.text[s.at:s.at+end]) {
		s.at += end + 1
		return s.text[begin:s.at], nil
	}
	return s.oddString(begin)
}

// plain reports whether text is printable ASCII without a backslash, as base64 is. It checks eight bytes at a time, because a flood
// consists of such text.
func plain(text []byte) bool {
	const ones = 0x0101010101010101
	if bytes.IndexByte(text, '\\') >= 0 {
		return false
	}
	for ; len(text) >= 8; text = text[8:] {
		eight := binary.LittleEndian.Uint64(text)
		if (eight|(eight-' '*ones))&(0x80*ones) != 0 { // a byte from 128 on, or one that borrows because it is below the space
			return false
		}
	}
	for _, c := range text {
		if c < ' ' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// oddString continues string for text with escapes, with characters that are not ASCII, or without an end.
func (s *scanner) oddString(begin int) ([]byte, error) {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			quoted := s.text[begin:s.at]
			if !json.Valid(quoted) { // escapes and control characters
				s.at = begin
				return nil, s.unexpected()
			}
			return quoted, nil
		case c == '\\':
			s.at += 2
		case c < utf8.RuneSelf:
			s.at++
		default:
			r, size := utf8.DecodeRune(s.text[s.at:])
			if r == utf8.RuneError && size == 1 {
				return nil, fmt.Errorf("the text is not UTF-8 at byte %d", s.at)
			}
			s.at += size
		}
	}
	s.at = len(s.text)
	return nil, s.unexpected()
}

func (s *scanner) number() error {
	begin := s.at
	for s.at < len(s.text) && bytes.IndexByte([]byte("+-.eE0123456789"), s.text[s.at]) >= 0 {
		s.at++
	}
	if begin == s.at || !json.Valid(s.text[begin:s.at]) {
		s.at = begin
		return s.unexpected()
	}
	return nil
}

func (s *scanner) word(word string) error {
	if !bytes.HasPrefix(s.text[s.at:], []byte(word)) {
		return s.unexpected()
	}
	s.at += len(word)
	return nil
}

func (s *scanner) space() {
	for s.at < len(s.text) && (s.text[s.at] == ' ' || s.text[s.at] == '\n' || s.text[s.at] == '\t' || s.text[s.at] == '\r') {
		s.at++
	}
}

// peek returns the next byte; zero at the end.
func (s *scanner) peek() byte {
	if s.at == len(s.text) {
		return 0
	}
	return s.text[s.at]
}

func (s *scanner) take(c byte) bool {
	if s.peek() != c || s.at == len(s.text) {
		return false
	}
	s.at++
	return true
}

func (s *scanner) unexpected() error {
	if s.at >= len(s.text) {
		return errors.New("the JSON text ends too early")
	}
	return fmt.Errorf("it is not JSON at byte %d", s.at)
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
