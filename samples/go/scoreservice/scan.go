package main

import (
	"bytes"
	"encoding/json"
)

// scanner walks through a text that json.Valid has passed, so it need not look for mistakes, and commas and colons tell it
// nothing. encoding/json's own tokens would cost ten times as much, its trees memory that depends on what a text nests.
type scanner struct {
	text []byte
	at   int
}

// peek is the first byte of what comes next, 0 at the end.
func (s *scanner) peek() byte {
	for ; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case ' ', '\t', '\n', '\r', ',', ':':
		default:
			return s.text[s.at]
		}
	}
	return 0
}

// take goes past the next byte if it is this one.
func (s *scanner) take(b byte) bool {
	if s.peek() != b {
		return false
	}
	s.at++
	return true
}

// str is the text of the string that is next.
func (s *scanner) str() string {
	raw := s.quoted()
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var text string
	_ = json.Unmarshal(raw, &text) // it is valid
	return text
}

func (s *scanner) quoted() []byte {
	s.peek()
	from := s.at
	for s.at++; s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
	return s.text[from:s.at]
}

// word is the number, true, false or null that is next.
func (s *scanner) word() string {
	s.peek()
	from := s.at
	for s.at < len(s.text) && bytes.IndexByte([]byte(" \t\n\r,]}"), s.text[s.at]) < 0 {
		s.at++
	}
	return string(s.text[from:s.at])
}

// value goes past a value, whatever it nests, and gives its text.
func (s *scanner) value() []byte {
	first := s.peek()
	from, depth := s.at, 0
	switch first {
	case '"':
		return s.quoted()
	case '{', '[':
	default:
		return []byte(s.word())
	}
	for {
		switch s.peek() {
		case '"':
			s.quoted()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.at++
		if depth == 0 {
			return s.text[from:s.at]
		}
	}
}
