// Package inboxdtest tests functions of handlers without inboxd, Kafka and network.
//
//	outcome := inboxdtest.Deliver(t, handler, inboxdtest.Message("orders", Order{Order: 17}))
//	if outcome.Status != inboxdtest.Done { … }
//
// The message takes the way of one of inboxd: the handler finds the function by topic and type, and its error becomes a verdict.
// Complete, CompletePGX and CompleteSQL need an open transaction, as always, but store nothing in the inbox: the outcome has what they
// would store. So the effects may go to a database that has no inbox, and roll back at the end of the test.
package inboxdtest

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"inboxd"
	"inboxd/internal/testkit"
)

// What a status is.
const (
	Done    = "done"
	Retry   = "retry"
	Dead    = "dead"
	Snooze  = "snooze"
	Skipped = "skipped"
)

// An Outcome is what a delivery has led to.
type Outcome struct {
	Status string
	// Completed is true if the function has called Complete, and its transaction has committed. The status is then done.
	Completed bool
	// Result is what inboxd would store; nil if there is none.
	Result json.RawMessage
	// Events are what inboxd would publish. Their data is a json.RawMessage, a []byte, or nil.
	Events []inboxd.OutboxEvent
	Reason string
	Code   string
	Delay  time.Duration
	// Err is the error of the function.
	Err error
}

// Message returns a message of a topic with this data, as JSON. Nil is a tombstone. Change its fields for more.
func Message(topic string, data any) *inboxd.Delivery {
	d := &inboxd.Delivery{Attempt: 1, MaxAttempts: 10, Seq: 1, Claim: "test"}
	d.Event = inboxd.Event{ID: "test-1", Source: "test", Type: topic, Topic: topic}
	if data != nil {
		text, err := json.Marshal(data)
		if err != nil {
			panic("inboxdtest: " + err.Error())
		}
		d.Event.Data = text
	}
	return d
}

// Load returns a message that `inboxd export` has written to a file.
func Load(t testing.TB, path string) *inboxd.Delivery {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := testkit.Load(text)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return d.(*inboxd.Delivery)
}

// Deliver delivers the message to the function of the handler for it, and waits for the function.
func Deliver(t testing.TB, handler *inboxd.Handler, message *inboxd.Delivery) Outcome {
	t.Helper()
	return deliver(t, handler, []*inboxd.Delivery{message}, false, "none")[0]
}

// DeliverBatch delivers messages together. The ordering is that of the consumer, for ordered batches: none, key or partition.
func DeliverBatch(t testing.TB, handler *inboxd.Handler, ordering string, messages ...*inboxd.Delivery) []Outcome {
	t.Helper()
	return deliver(t, handler, messages, true, ordering)
}

func deliver(t testing.TB, handler *inboxd.Handler, messages []*inboxd.Delivery, together bool, ordering string) []Outcome {
	t.Helper()
	var outcomes []Outcome
	for _, found := range testkit.Deliver(handler, messages, together, ordering) {
		o, err := outcomeOf(found)
		if err != nil {
			t.Fatalf("inboxdtest: %v", err)
		}
		outcomes = append(outcomes, o)
	}
	return outcomes
}

type event struct {
	Topic, Aggregate, Key, Type, ID, Source, Subject string
	Data                                             json.RawMessage
	DataBase64                                       []byte `json:"data_base64"`
	Headers                                          map[string]string
}

func outcomeOf(found testkit.Outcome) (Outcome, error) {
	var members struct {
		Status  string
		Result  json.RawMessage
		Emit    []event
		Reason  string
		Code    string
		DelayMS int64 `json:"delay_ms"`
	}
	if err := json.Unmarshal([]byte("{"+found.Members+"}"), &members); err != nil {
		return Outcome{}, err
	}
	o := Outcome{Status: members.Status, Completed: found.Completed, Result: members.Result, Reason: members.Reason, Code: members.Code,
		Delay: time.Duration(members.DelayMS) * time.Millisecond, Err: found.Err}
	if found.Completed {
		o.Status, o.Result = Done, found.Result
		if err := json.Unmarshal([]byte("["+string(found.Events)+"]"), &members.Emit); err != nil {
			return Outcome{}, err
		}
	}
	for _, e := range members.Emit {
		var data any
		if e.DataBase64 != nil {
			data = e.DataBase64
		} else if e.Data != nil {
			data = e.Data
		}
		o.Events = append(o.Events, inboxd.OutboxEvent{Type: e.Type, Topic: e.Topic, Aggregate: e.Aggregate, Key: e.Key, Data: data,
			Headers: e.Headers, ID: e.ID, Source: e.Source, Subject: e.Subject})
	}
	return o, nil
}
