package inboxd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// A Header is a header of the Kafka record.
type Header struct {
	Key   string
	Value []byte // nil if the header has no value
}

// A Delivery is one message, delivered once. The source and the ID of its event identify the message.
//
// A Delivery belongs to the function that gets it. Its methods are not safe for use by several goroutines at once.
type Delivery struct {
	Event Event
	// Headers are those of the Kafka record, without the attributes of the event, in order. A key may stand there several times.
	Headers []Header

	// ID is that of this delivery. Another delivery of the message has another one.
	ID string
	// Claim is the argument of inbox.complete(). Complete passes it.
	Claim string
	// Seq is the row in inbox_messages.
	Seq int64
	// Attempt is 1 at the first attempt. MaxAttempts failed attempts make the message dead.
	Attempt     int
	MaxAttempts int
	// Deadline is the first deadline, by the clock of inboxd. Extend does not change it.
	Deadline time.Time
	// Replay is true if an operator asked for another run: the message may have been processed before.
	Replay bool
	// Consumer is the consumer, if the configuration of inboxd has several.
	Consumer string

	ctx    context.Context
	cancel context.CancelCauseFunc

	// These belong to the session.
	session    *session
	group      *group
	wireID     []byte
	received   time.Time
	deadlineAt time.Time
	begun      bool

	// What the function has said.
	said
}

type said struct {
	result    []byte
	events    []byte
	decided   bool
	verdict   error
	completed bool
}

// remember returns a function that forgets what is said from now on, for a transaction that does not commit. A verdict that is an error
// needs no transaction, and stays.
func (d *Delivery) remember() (forget func()) {
	before := d.said
	return func() {
		if d.verdict != nil {
			before.decided, before.verdict = d.decided, d.verdict
		}
		d.said = before
	}
}

// Context returns the context of the work on this message, which the function for it gets, too. It is cancelled when inboxd does not
// wait for an answer any more; its cause is then a [*CancelError]. It is also cancelled when the function has returned.
func (d *Delivery) Context() context.Context {
	if d.ctx == nil {
		return context.Background()
	}
	return d.ctx
}

// Header returns the value of the last header with this key; nil if there is none.
func (d *Delivery) Header(key string) []byte {
	for i := len(d.Headers) - 1; i >= 0; i-- {
		if d.Headers[i].Key == key {
			return d.Headers[i].Value
		}
	}
	return nil
}

// SetResult sets the result that inboxd stores in the row, if the message is done or completed. The value is marshalled at once. One
// that is not JSON, or is longer than 1 MiB, is replaced by a note, and the message is done all the same.
func (d *Delivery) SetResult(value any) {
	d.result = resultJSON(value)
}

// An OutboxEvent is an event that inboxd publishes to Kafka. It needs a Type, and a Topic or an Aggregate.
type OutboxEvent struct {
	Type      string
	Topic     string
	Aggregate string
	Key       string
	// Data is the payload: a []byte as it is, anything else as JSON. Nil is a tombstone.
	Data    any
	Headers map[string]string
	// ID is derived from the message if it is empty, so that a repeated delivery has the same one.
	ID      string
	Source  string
	Subject string
}

type wireEvent struct {
	Topic      string            `json:"topic,omitempty"`
	Aggregate  string            `json:"aggregate,omitempty"`
	Key        string            `json:"key,omitempty"`
	Type       string            `json:"type"`
	Data       any               `json:"data,omitempty"`
	DataBase64 *[]byte           `json:"data_base64,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"`
	ID         string            `json:"id,omitempty"`
	Source     string            `json:"source,omitempty"`
	Subject    string            `json:"subject,omitempty"`
}

// Emit adds events that inboxd publishes. It stores them together with the completion of the message: if the message is not done, or
// not completed, the events are not published. Emit returns an error if the data of an event is not JSON, if the events have more
// than 8 MiB, or if the message is completed: then they would be lost.
//
// If the transaction of [CompletePGX] or [CompleteSQL] fails, the events that were added in it are forgotten, so that the
// function may begin another one.
func (d *Delivery) Emit(events ...OutboxEvent) error {
	if d.completed {
		return errors.New("inboxd: the message is completed, so its events would be lost: call Emit before Complete")
	}
	all := d.events
	for _, e := range events {
		w := wireEvent{Topic: e.Topic, Aggregate: e.Aggregate, Key: e.Key, Type: e.Type, Data: e.Data, Headers: e.Headers, ID: e.ID,
			Source: e.Source, Subject: e.Subject}
		if data, ok := e.Data.([]byte); ok {
			w.Data, w.DataBase64 = nil, &data
		}
		text, err := json.Marshal(w)
		if err != nil {
			return fmt.Errorf("inboxd: emit %s: %w", e.Type, err)
		}
		if len(all) > 0 {
			all = append(all, ',')
		}
		if all = append(all, text...); len(all) > eventsMax {
			return fmt.Errorf("inboxd: the events of a message have more than %d bytes", eventsMax)
		}
	}
	d.events = all
	return nil
}

// SetVerdict sets, in a function for batches, the verdict for this message alone: what a function for single messages would return.
// Nil is done. Without a verdict of its own, the message gets what the function returns.
func (d *Delivery) SetVerdict(err error) {
	d.decided, d.verdict = true, err
}

// SetCompleted says that a transaction that called inbox.complete() has committed. Complete does this by itself.
func (d *Delivery) SetCompleted() {
	d.completed = true
}

// Extend moves the deadline to so much time from now.
//
// The library does this by itself for every message that it holds ([ExtendUpTo]).
func (d *Delivery) Extend(timeout time.Duration) error {
	if err := context.Cause(d.Context()); err != nil {
		return err
	}
	if d.session != nil {
		d.session.extend(d, timeout)
	}
	return nil
}

// String names the delivery without its data.
func (d *Delivery) String() string {
	typ := d.Event.Type
	if typ == "" {
		typ = "the event"
	}
	return fmt.Sprintf("delivery %s (attempt %d of %s %s from %s)", d.ID, d.Attempt, typ, d.Event.ID, d.Event.Source)
}

// A lane is what messages that must be processed one after the other have in common. A message without order has its own.
type lane struct {
	alone     *Delivery
	topic     string
	partition int32
	key       string
}

func (d *Delivery) lane(ordering string) lane {
	e := &d.Event
	switch {
	case ordering == "partition":
		return lane{topic: e.Topic, partition: e.Partition}
	case ordering == "none" || e.Key == nil:
		return lane{alone: d}
	}
	return lane{topic: e.Topic, partition: e.Partition, key: string(e.Key)}
}

// answer returns the answer for what the function has returned, and for what it has said by SetResult, Emit and Complete.
func (d *Delivery) answer(err error) answer {
	switch {
	case err != nil:
		return errorAnswer(err)
	case d.completed:
		return settledAnswer
	}
	return done(d.result, d.events)
}
