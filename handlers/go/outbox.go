package inboxd

import (
	"context"
	"encoding/json"
	"fmt"
)

const (
	emitRest  = "$5::text::jsonb, $6::text, $7::text, $8::text, $9::text)"
	emitJSON  = "SELECT inbox.emit($1::text, $2::text, $3::text, $4::text::jsonb, " + emitRest
	emitBytes = "SELECT inbox.emit_bytes($1::text, convert_to($2::text, 'UTF8'), $3::text, $4::bytea, NULL, " + emitRest
)

// Emit emits an event of a service in its transaction: inboxd publishes it if and only if the transaction commits. tx is as for
// [Delivery.Complete]. A handler uses [Delivery.Emit] instead, so that a repeated delivery repeats the IDs of its events.
func Emit(ctx context.Context, tx Tx, event OutboxEvent) error {
	headers, err := json.Marshal(event.Headers)
	if err != nil {
		return fmt.Errorf("inboxd: emit %s: %w", event.Type, err)
	}
	if event.Headers == nil {
		headers = []byte("{}")
	}
	statement, data := emitJSON, any(nil)
	if bytes, ok := event.Data.([]byte); ok {
		statement, data = emitBytes, bytes
	} else if event.Data != nil {
		text, err := json.Marshal(event.Data)
		if err != nil {
			return fmt.Errorf("inboxd: emit %s: %w", event.Type, err)
		}
		data = string(text)
	}
	arguments := []any{orNil(event.Topic), orNil(event.Key), event.Type, data, string(headers), orNil(event.ID), orNil(event.Source),
		orNil(event.Subject), orNil(event.Aggregate)}
	if _, isOpen := tx.(driverTx); !isOpen {
		if err := requireTransaction(ctx, tx); err != nil {
			return err
		}
	}
	return tx.Exec(ctx, statement, arguments...)
}

func orNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}
