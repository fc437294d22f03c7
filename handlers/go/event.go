package inboxd

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// ErrNotJSON says that a payload is not JSON, or that the event is a tombstone.
var ErrNotJSON = errors.New("inboxd: the data of the event is not JSON")

// A DataError is what [Event.Decode] returns. If a function returns it, the message is a retry with the code DATA.
type DataError struct {
	Err error
}

func (e *DataError) Error() string {
	return e.Err.Error()
}

// Unwrap returns [ErrNotJSON], or an error of encoding/json.
func (e *DataError) Unwrap() error {
	return e.Err
}

// Code returns DATA.
func (e *DataError) Code() string {
	return "DATA"
}

// An Event is a CloudEvent: the attributes that every message has, and its data.
//
// Source and ID together identify the message. They are the same at each delivery.
//
// In JSON an Event has the form that CloudEvents prescribes. To convert it to the type of another library, marshal it and unmarshal
// the result into that type.
type Event struct {
	ID              string
	Source          string
	Type            string // empty if the message has no type
	Subject         string
	Time            time.Time // zero if the message has none
	DataContentType string
	DataSchema      string

	// TraceParent and TraceState are the W3C trace context that the producer sent; see Trace.
	TraceParent string
	TraceState  string

	// Data is the payload, byte for byte. It is JSON unless Binary is true. It is nil if the record had no value (a tombstone);
	// an empty payload is not nil.
	Data   []byte
	Binary bool

	// Topic, Partition and Offset are where the record is in Kafka. Key is its key; nil if it has none.
	Topic     string
	Partition int32
	Offset    int64
	Key       []byte

	// Extensions are the other attributes that the producer has set.
	Extensions map[string]string
}

// IsTombstone reports whether the record had no value. A JSON null is a value.
func (e *Event) IsTombstone() bool {
	return e.Data == nil
}

// Decode unmarshals the data into v, as [json.Unmarshal] does. It returns a [*DataError].
func (e *Event) Decode(v any) error {
	err := ErrNotJSON
	if e.Data != nil && !e.Binary {
		err = json.Unmarshal(e.Data, v)
	}
	if err != nil {
		return &DataError{err}
	}
	return nil
}

// Trace returns the trace that the message belongs to. It returns false if the message belongs to none.
func (e *Event) Trace() (TraceContext, bool) {
	return ParseTraceContext(e.TraceParent, e.TraceState)
}

// The attributes that are texts, in the order in which MarshalJSON writes them.
var textAttributes = []string{"id", "source", "type", "subject", "datacontenttype", "dataschema", "traceparent", "tracestate", "kafkatopic"}

// attribute returns the field of an attribute that is a text; nil if it has none.
func (e *Event) attribute(name string) *string {
	switch name {
	case "id":
		return &e.ID
	case "source":
		return &e.Source
	case "type":
		return &e.Type
	case "subject":
		return &e.Subject
	case "datacontenttype":
		return &e.DataContentType
	case "dataschema":
		return &e.DataSchema
	case "traceparent":
		return &e.TraceParent
	case "tracestate":
		return &e.TraceState
	case "kafkatopic":
		return &e.Topic
	}
	return nil
}

// MarshalJSON writes the event in the JSON format of CloudEvents.
func (e Event) MarshalJSON() ([]byte, error) {
	text := []byte(`{"specversion":"1.0"`)
	add := func(name string, value []byte) {
		text = append(append(append(append(text, ','), quote(name)...), ':'), value...)
	}
	for _, name := range textAttributes {
		if value := *e.attribute(name); value != "" {
			add(name, quote(value))
		}
	}
	if !e.Time.IsZero() {
		add("time", quote(e.Time.Format(time.RFC3339Nano)))
	}
	if e.Topic != "" {
		add("kafkapartition", strconv.AppendInt(nil, int64(e.Partition), 10))
		add("kafkaoffset", quote(strconv.FormatInt(e.Offset, 10)))
	}
	if utf8.Valid(e.Key) && e.Key != nil {
		add("partitionkey", quote(string(e.Key)))
	} else if e.Key != nil {
		add("partitionkeybase64", quote(base64.StdEncoding.EncodeToString(e.Key)))
	}
	names := make([]string, 0, len(e.Extensions))
	for name := range e.Extensions {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		add(name, quote(e.Extensions[name]))
	}
	if e.Data != nil && e.Binary {
		add("data_base64", quote(base64.StdEncoding.EncodeToString(e.Data)))
	} else if e.Data != nil {
		add("data", e.Data)
	}
	return append(text, '}'), nil
}

// UnmarshalJSON reads an event in the JSON format of CloudEvents.
func (e *Event) UnmarshalJSON(text []byte) error {
	s := scanner{data: slices.Clone(text)}
	*e = Event{}
	s.event(e)
	if s.err != nil {
		return errors.New("inboxd: not an event: " + s.err.Error())
	}
	return nil
}

// quote returns the text as a string of JSON.
func quote(text string) []byte {
	quoted, _ := json.Marshal(text)
	return quoted
}
