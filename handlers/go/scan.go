package inboxd

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// The deepest nesting of a line. inboxd sends 512 levels at most.
const maxDepth = 10_000

// A scanner reads the JSON of one line from left to right, in one pass and with few copies: a handler spends most of its time on
// lines. It accepts what [json.Valid] accepts. After the first error it is at the end of the line, and reads nothing any more.
type scanner struct {
	data  []byte
	pos   int
	depth int
	err   error
}

func (s *scanner) fail(expected string) {
	if s.err == nil {
		s.err = fmt.Errorf("expected %s at byte %d", expected, s.pos)
	}
	s.pos = len(s.data)
}

// peek skips white space and returns the next byte; 0 at the end.
func (s *scanner) peek() byte {
	for ; s.pos < len(s.data); s.pos++ {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) expect(c byte) {
	if s.peek() != c || s.pos == len(s.data) {
		s.fail(strconv.QuoteRune(rune(c)))
		return
	}
	s.pos++
}

// object calls member for each member of an object. member must read the value.
func (s *scanner) object(member func(name []byte)) {
	s.list('{', '}', func() {
		name := inner(s.quoted())
		s.expect(':')
		if bytes.IndexByte(name, '\\') >= 0 {
			name = []byte(unquote(name))
		}
		member(name)
	})
}

// array calls item for each item of an array. item must read it.
func (s *scanner) array(item func()) {
	s.list('[', ']', item)
}

func (s *scanner) list(opening, closing byte, item func()) {
	s.expect(opening)
	s.depth++
	defer func() { s.depth-- }()
	if s.depth > maxDepth {
		s.fail("less nesting")
	}
	if s.peek() == closing {
		s.pos++
		return
	}
	for s.err == nil {
		item()
		switch s.peek() {
		case ',':
			s.pos++
		case closing:
			s.pos++
			return
		default:
			s.fail("a comma or " + strconv.QuoteRune(rune(closing)))
		}
	}
}

func (s *scanner) skip() {
	switch c := s.peek(); c {
	case '{':
		s.object(func([]byte) { s.skip() })
	case '[':
		s.array(func() { s.skip() })
	case '"':
		s.quoted()
	case 't':
		s.literal("true")
	case 'f':
		s.literal("false")
	case 'n':
		s.literal("null")
	default:
		s.number()
	}
}

// raw reads any value and returns it as it is written.
func (s *scanner) raw() []byte {
	s.peek()
	start := s.pos
	s.skip()
	return s.data[start:s.pos:s.pos]
}

func (s *scanner) literal(word string) {
	if !bytes.HasPrefix(s.data[s.pos:], []byte(word)) {
		s.fail(word)
		return
	}
	s.pos += len(word)
}

func (s *scanner) number() {
	if s.at('-') {
		s.pos++
	}
	if s.at('0') {
		s.pos++
	} else {
		s.digits()
	}
	if s.at('.') {
		s.pos++
		s.digits()
	}
	if s.at('e') || s.at('E') {
		s.pos++
		if s.at('+') || s.at('-') {
			s.pos++
		}
		s.digits()
	}
}

func (s *scanner) at(c byte) bool {
	return s.pos < len(s.data) && s.data[s.pos] == c
}

func (s *scanner) digits() {
	start := s.pos
	for s.pos < len(s.data) && '0' <= s.data[s.pos] && s.data[s.pos] <= '9' {
		s.pos++
	}
	if s.pos == start {
		s.fail("a value")
	}
}

// quoted reads a string and returns it as it is written, with its quotes.
func (s *scanner) quoted() []byte {
	s.expect('"')
	start := s.pos - 1
	for i := s.pos; i < len(s.data); i++ {
		switch c := s.data[i]; {
		case c == '"':
			s.pos = i + 1
			return s.data[start:s.pos]
		case c == '\\':
			n := escapeLength(s.data[i:])
			if n == 0 {
				s.pos = i
				s.fail("an escape")
				return nil
			}
			i += n - 1
		case c < ' ':
			s.pos = i
			s.fail("no control character in a string")
			return nil
		}
	}
	s.fail("the end of a string")
	return nil
}

// escapeLength returns the length of the escape that the text begins with; 0 if it is none.
func escapeLength(text []byte) int {
	if len(text) < 2 {
		return 0
	}
	switch text[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(text) < 6 {
			return 0
		}
		for _, c := range text[2:6] {
			if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
				return 0
			}
		}
		return 6
	}
	return 0
}

func inner(quoted []byte) []byte {
	if len(quoted) < 2 {
		return nil
	}
	return quoted[1 : len(quoted)-1]
}

// unquote returns the text of a string without its quotes. The string has been checked.
func unquote(inner []byte) string {
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	var text string
	_ = json.Unmarshal(append(append([]byte{'"'}, inner...), '"'), &text)
	return text
}

// optional reads a value as a text. False: it is null. A value of another kind is its JSON.
func (s *scanner) optional() (string, bool) {
	value := s.raw()
	switch {
	case len(value) > 0 && value[0] == '"':
		return unquote(inner(value)), true
	case string(value) == "null":
		return "", false
	}
	return string(value), true
}

func (s *scanner) text() string {
	text, _ := s.optional()
	return text
}

// integer reads a number, or a text with one; 0 if it is none, or too large.
func (s *scanner) integer() int64 {
	text := s.text()
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	f, _ := strconv.ParseFloat(text, 64) // 3e4 is a whole number, too
	if f < -1<<53 || f > 1<<53 {
		return 0
	}
	return int64(f)
}

func (s *scanner) boolean() bool {
	return string(s.raw()) == "true"
}

// time reads a time as RFC 3339 writes it; the zero time if it is none.
func (s *scanner) time() time.Time {
	t, _ := time.Parse(time.RFC3339Nano, s.text())
	return t
}

// base64 reads bytes that a text encodes; nil if it is null.
func (s *scanner) base64() []byte {
	text, ok := s.optional()
	if !ok {
		return nil
	}
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		s.fail("base64")
	}
	return decoded
}

// textOrBytes reads a name or a value of a header: a text, or an object with base64, or null.
func (s *scanner) textOrBytes() []byte {
	if s.peek() != '{' {
		if text, ok := s.optional(); ok {
			return append([]byte{}, text...)
		}
		return nil
	}
	var decoded []byte
	s.object(func(name []byte) {
		if string(name) == "base64" {
			decoded = s.base64()
		} else {
			s.skip()
		}
	})
	return decoded
}
