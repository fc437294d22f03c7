package inboxd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"inboxd/internal/testkit"
)

func init() {
	testkit.Load, testkit.Deliver = loadTest, deliverTest
}

func loadTest(params []byte) (any, error) {
	m, err := parseMessage([]byte(`{"params":` + string(params) + `}`))
	if err == nil && (m.params.delivery == nil || m.params.delivery.Event.ID == "") {
		err = errors.New("it has no event")
	}
	if err != nil {
		return nil, fmt.Errorf("inboxd: not what `inboxd export` writes: %w", err)
	}
	return m.params.delivery, nil
}

// deliverTest lets the messages take the way of messages of inboxd, in a session without a connection.
func deliverTest(handler, deliveries any, together bool, ordering string) []testkit.Outcome {
	real := handler.(*Handler)
	h := &Handler{name: real.name, options: real.options, routes: real.routes}
	var mu sync.Mutex
	failures := make(map[*Delivery]error)
	h.options.onError = func(d *Delivery, err error) error {
		mu.Lock()
		failures[d] = err
		mu.Unlock()
		return real.options.onError(d, err)
	}
	s := newSession(h, nil, context.Background())
	s.ordering, s.isTest, s.closed = ordering, true, true
	adopted := make([]*Delivery, 0)
	for i, d := range deliveries.([]*Delivery) {
		one := *d
		s.adopt(&one, quote(fmt.Sprintf("d%d", i+1)), nil, time.Now())
		adopted = append(adopted, &one)
	}
	if together {
		s.acceptBatch(adopted)
	} else {
		for _, d := range adopted {
			s.accept(d)
		}
	}
	h.work.Wait()
	outcomes := make([]testkit.Outcome, len(adopted))
	for i, d := range adopted {
		members := s.answerOf(d)
		outcomes[i] = testkit.Outcome{Members: members, Completed: strings.HasPrefix(members, settledAnswer.members) && d.completed, Err: failures[d]}
		if d.completed {
			outcomes[i].Result, outcomes[i].Events = d.result, d.events
		}
	}
	return outcomes
}

// answerOf returns the members of the answer that a session without a connection would have sent.
func (s *session) answerOf(d *Delivery) string {
	before := `{"jsonrpc":"2.0","id":` + string(d.wireID) + `,"result":{`
	for _, line := range strings.Split(string(s.unsent), "\n") {
		if members, ok := strings.CutPrefix(line, before); ok {
			return strings.TrimSuffix(members, "}}")
		}
	}
	return skippedAnswer.members
}
