package testing_test

import (
	"context"
	"errors"
	"testing"

	"inboxd"
	"inboxd/inboxdtest"
)

var handler = inboxd.NewHandler("billing")

func init() {
	handler.On(inboxd.Topic("orders"), func(_ context.Context, d *inboxd.Delivery) error {
		var order struct{ Cents, Address any }
		if err := d.Event.Decode(&order); err != nil {
			return err
		}
		if order.Address == nil {
			return inboxd.Dead(errors.New("an order without an address")).WithCode("ADDRESS")
		}
		d.SetResult(order.Cents)
		return nil
	})
}

func TestAnOrderWithoutAnAddress(t *testing.T) { // the exported message
	outcome := inboxdtest.Deliver(t, handler, inboxdtest.Load(t, "testdata/a17.json"))
	if outcome.Status != inboxdtest.Dead || outcome.Code != "ADDRESS" {
		t.Errorf("%+v", outcome)
	}
}

func TestAnOrder(t *testing.T) {
	order := map[string]any{"cents": 1250, "address": "Main Street 1"}
	outcome := inboxdtest.Deliver(t, handler, inboxdtest.Message("orders", order))
	if string(outcome.Result) != "1250" {
		t.Errorf("%+v", outcome)
	}
}
