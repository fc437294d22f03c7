package inboxd_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"inboxd"
)

const anEvent = `{"specversion":"1.0","id":"A1","source":"orders","type":"order.created","subject":"17","datacontenttype":"application/json",
	"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","tracestate":"a=b","kafkatopic":"orders",
	"time":"2026-11-21T05:40:59.12Z","kafkapartition":3,"kafkaoffset":"9007199254740993","partitionkey":"c-ü","tenant":"x",
	"data":{"order":1.50,"order":17}}`

func parse(t *testing.T, text string) inboxd.Event {
	t.Helper()
	var e inboxd.Event
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestAnEventHasItsAttributes(t *testing.T) {
	e := parse(t, anEvent)
	equal(t, []any{e.ID, e.Source, e.Type, e.Subject, e.DataContentType}, []any{"A1", "orders", "order.created", "17", "application/json"})
	equal(t, []any{e.Topic, e.Partition, e.Offset, string(e.Key)}, []any{"orders", 3, int64(9007199254740993), "c-ü"})
	equal(t, e.Extensions, map[string]string{"tenant": "x"})
	equal(t, e.Time, time.Date(2026, 11, 21, 5, 40, 59, 120_000_000, time.UTC))
	equal(t, string(e.Data), `{"order":1.50,"order":17}`)
	var order struct{ Order float64 }
	if err := e.Decode(&order); err != nil || order.Order != 17 {
		t.Errorf("Decode: %v, %v", order, err)
	}
}

func TestAnEventSurvivesAJSONRoundTrip(t *testing.T) {
	for name, text := range map[string]string{
		"all attributes": anEvent,
		"bytes":          `{"id":"A1","source":"s","partitionkeybase64":"//4A","data_base64":"AAH/"}`,
		"empty payload":  `{"id":"A1","source":"s","partitionkey":"","data_base64":""}`,
		"null":           `{"id":"A1","source":"s","data":null}`,
		"tombstone":      `{"id":"A1","source":"s"}`,
	} {
		t.Run(name, func(t *testing.T) {
			e := parse(t, text)
			written, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			again := parse(t, string(written))
			if again.IsTombstone() != e.IsTombstone() || again.Binary != e.Binary || (again.Key == nil) != (e.Key == nil) {
				t.Errorf("got %#v, want %#v", again, e)
			}
			var got, want object
			if err := errors.Join(json.Unmarshal(written, &got), json.Unmarshal([]byte(text), &want)); err != nil {
				t.Fatal(err)
			}
			want["specversion"] = "1.0"
			equal(t, got, want)
		})
	}
}

func TestDataThatIsNotJSONIsNotDecoded(t *testing.T) {
	for _, text := range []string{`{"data_base64":"e30="}`, `{}`} {
		e := parse(t, text)
		if err := e.Decode(new(any)); !errors.Is(err, inboxd.ErrNotJSON) {
			t.Errorf("%s: Decode returned %v", text, err)
		}
	}
}

func TestWhatIsNoEventIsAnError(t *testing.T) {
	var e inboxd.Event
	for _, text := range []string{`[]`, `1`, `{"data_base64":"?"}`} {
		if err := json.Unmarshal([]byte(text), &e); err == nil {
			t.Errorf("%s is an event", text)
		}
	}
}

func TestTheTraceOfAnEvent(t *testing.T) {
	e := parse(t, anEvent)
	trace, ok := e.Trace()
	if !ok || !trace.Sampled() {
		t.Fatalf("the trace is %v, %v", trace, ok)
	}
	equal(t, trace.Headers(), object{"traceparent": e.TraceParent, "tracestate": "a=b"})
	child := trace.Child()
	if child.TraceID != trace.TraceID || child.ParentID == trace.ParentID || child.State != "a=b" {
		t.Errorf("the child of %v is %v", trace, child)
	}
}

func TestTraceContextsThatAreNotValid(t *testing.T) {
	const id, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for _, text := range []string{
		"", "00", "ff-" + id + "-" + parent + "-01", "00-" + id + "-" + parent + "-01-more", "00-" + id + "-" + parent + "-zz",
		"00-00000000000000000000000000000000-" + parent + "-01", "00-" + id + "-0000000000000000-01",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-" + parent + "-01", "01-" + id + "-" + parent + "-01x", "00-" + id + parent + "--01", "0-0" + id + "-" + parent + "-01",
	} {
		if trace, ok := inboxd.ParseTraceContext(text, ""); ok {
			t.Errorf("%q is %v", text, trace)
		}
	}
	if _, ok := inboxd.ParseTraceContext("cc-"+id+"-"+parent+"-01-more", ""); !ok {
		t.Error("a later version with more parts is not understood")
	}
}

func TestHeaders(t *testing.T) {
	d := inboxd.Delivery{Headers: []inboxd.Header{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2")}, {Key: "b"}}}
	equal(t, []any{string(d.Header("a")), d.Header("b"), d.Header("c")}, []any{"2", nil, nil})
}
