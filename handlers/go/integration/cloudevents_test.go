// Package integration tests the library together with others that it does not depend on.
package integration

import (
	"encoding/json"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"inboxd"
)

// ToCloudEvent is the conversion that the README shows.
func toCloudEvent(event inboxd.Event) (cloudevents.Event, error) {
	var converted cloudevents.Event
	text, err := json.Marshal(event)
	if err == nil {
		err = json.Unmarshal(text, &converted) // a cloudevents.Event
	}
	return converted, err
}

func TestAnEventBecomesACloudEvent(t *testing.T) {
	event := inboxd.Event{
		ID: "A234", Source: "orders", Type: "order.created", Time: time.Date(2026, 11, 21, 5, 40, 59, 0, time.UTC),
		DataContentType: "application/json", Data: []byte(`{"order":17}`), Topic: "orders", Partition: 3, Offset: 9007199254740993,
		Key: []byte("c-17"), TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Extensions: map[string]string{"tenant": "a"},
	}
	converted, err := toCloudEvent(event)
	if err != nil {
		t.Fatal(err)
	}
	if err := converted.Validate(); err != nil {
		t.Error(err)
	}
	var order struct{ Order int }
	if err := converted.DataAs(&order); err != nil || order.Order != 17 {
		t.Errorf("the data is %v (%v)", order, err)
	}
	extensions := converted.Extensions()
	for name, want := range map[string]any{"partitionkey": "c-17", "kafkatopic": "orders", "kafkapartition": int32(3),
		"kafkaoffset": "9007199254740993", "traceparent": event.TraceParent, "tenant": "a"} {
		if extensions[name] != want {
			t.Errorf("%s is %v, want %v", name, extensions[name], want)
		}
	}
	if converted.ID() != "A234" || converted.Source() != "orders" || converted.Type() != "order.created" || !converted.Time().Equal(event.Time) {
		t.Errorf("the event is %v", converted)
	}

	back, err := json.Marshal(converted)
	var again inboxd.Event
	if err == nil {
		err = json.Unmarshal(back, &again)
	}
	if err != nil || again.Offset != event.Offset || string(again.Data) != string(event.Data) || string(again.Key) != "c-17" {
		t.Errorf("%s became %v (%v)", back, again, err)
	}
}

func TestBytesBecomeACloudEvent(t *testing.T) {
	converted, err := toCloudEvent(inboxd.Event{ID: "A", Source: "s", Type: "t", Data: []byte{0, 255}, Binary: true})
	if err != nil {
		t.Fatal(err)
	}
	if data := converted.Data(); string(data) != "\x00\xff" {
		t.Errorf("the data is %q", data)
	}
}
