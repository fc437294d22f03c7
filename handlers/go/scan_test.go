package inboxd

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

var lines = []string{
	`{"jsonrpc":"2.0","id":"d1","method":"deliver","params":{"delivery":{"claim":"1.1.17","seq":"1","attempt":2,"replay":true},"event":` +
		`{"id":"A","data":{"n":[1,-0.5e+3,"\u00fc\"",null,true,false]},"partitionkeybase64":"//4="},"headers":[["a","b"],[{"base64":"AA=="},null],[]]}}`,
	`{"id":null,"error":{"code":-32700}}`, ` { "a" : [ ] , "\u0069d" : { } } `, "{\"a\":1}\r", `{}`, `{"a":"\ud83d\ude00"}`,
	``, ` `, `{`, `}`, `{]`, `[1,2]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":1 "b":2}`, `{"a":01}`, `{"a":1.}`, `{"a":-}`, `{"a":1e}`, `{"a":tru}`,
	`{"a":"x`, `{"a":"\x"}`, `{"a":"\u12g4"}`, "{\"a\":\"\n\"}", `{"a":1}x`, `{a:1}`, `{"a":[1,]}`, `{"a":nulll}`, `{"params":{"headers":[[{"base64":"?"}]]}}`,
}

func FuzzScanner(f *testing.F) {
	for _, line := range lines {
		f.Add([]byte(line))
	}
	f.Add([]byte(`{"a":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		s := scanner{data: line}
		value := s.raw()
		if s.peek(); s.err == nil && s.pos < len(line) {
			s.fail("the end")
		}
		if got, want := s.err == nil, json.Valid(line); got != want {
			t.Fatalf("%q: the scanner says %v (%v), encoding/json says %v", line, got, s.err, want)
		}
		if s.err == nil && !bytes.Equal(value, bytes.Trim(line, " \t\r\n")) {
			t.Fatalf("%q is read as %q", line, value)
		}
		_, _ = parseMessage(bytes.Clone(line))
	})
}

func FuzzText(f *testing.F) {
	for _, text := range []string{`"a"`, `"\u00fc\n"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\\\""`, `null`, `17`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		var want string
		if !bytes.HasPrefix(value, []byte(`"`)) || json.Unmarshal(value, &want) != nil {
			return
		}
		s := scanner{data: value}
		// encoding/json replaces bytes that are not UTF-8; inboxd sends none.
		if got := strings.ToValidUTF8(s.text(), "\uFFFD"); got != want && !strings.ContainsRune(want, '\uFFFD') {
			t.Fatalf("%q is read as %q, want %q", value, got, want)
		}
	})
}

func TestDeepNestingIsAnErrorAndNoCrash(t *testing.T) {
	line := strings.Repeat(`{"a":`, 2_000_000)
	if _, err := parseMessage([]byte(line)); err == nil {
		t.Error("two million levels are accepted")
	}
}

func TestTheLastOfEqualMembersCounts(t *testing.T) {
	m, err := parseMessage([]byte(`{"id":1,"method":"a","id":2,"method":"b"}`))
	if err != nil || string(m.id) != "2" || m.method != "b" {
		t.Errorf("%v, %v", m, err)
	}
}

func TestNumbersMayBeWrittenInAnyForm(t *testing.T) {
	for text, want := range map[string]int64{`"9223372036854775807"`: 9223372036854775807, `30000`: 30000, `3e4`: 30000, `30000.0`: 30000, `null`: 0, `{}`: 0, `1e300`: 0} {
		s := scanner{data: []byte(text)}
		if got := s.integer(); got != want {
			t.Errorf("%s is %d", text, got)
		}
	}
}

func BenchmarkDeliver(b *testing.B) {
	line := []byte(strings.Replace(lines[0], `"n":`, `"text":"`+strings.Repeat("x", 400)+`","n":`, 1))
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for range b.N {
		if _, err := parseMessage(line); err != nil {
			b.Fatal(err)
		}
	}
}
