// Schema_registry decodes Avro with a schema registry. It needs SCHEMA_REGISTRY_URL.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"

	"inboxd"
)

type Order struct {
	Order    int64  `avro:"order" json:"order"`
	Cents    int64  `avro:"cents" json:"cents"`
	Currency string `avro:"currency" json:"currency"`
}

// What this program reads. If the producer has an older schema, Avro sets the currency; Avro leaves out fields that are not here.
var orderSchema = avro.MustParse(`{"type": "record", "name": "Order", "fields": [
	{"name": "order", "type": "long"},
	{"name": "cents", "type": "long"},
	{"name": "currency", "type": "string", "default": "EUR"}]}`)

const noSchema = 40403 // the registry says so; another 404 can also mean a wrong address

// orders decodes orders, and keeps the schemas by their id.
type orders struct {
	registry *sr.Client
	schemas  sync.Map
}

func dead(text string, err error) error {
	return inboxd.Dead(fmt.Errorf("%s: %w", text, err)).WithCode("DATA")
}

// schema returns how to read what was written with the schema of this id. Its error is a verdict. Functions that run at the same time
// may each request a new schema.
func (o *orders) schema(ctx context.Context, id int) (*avro.Schema, error) {
	if known, ok := o.schemas.Load(id); ok {
		return known.(*avro.Schema), nil
	}
	found, err := o.registry.SchemaByID(ctx, id)
	if refused := (*sr.ResponseError)(nil); errors.As(err, &refused) && refused.ErrorCode == noSchema {
		return nil, dead("unknown schema", err)
	}
	if err != nil {
		return nil, inboxd.Snooze(5*time.Second, fmt.Errorf("schema registry: %w", err)).WithCode("REGISTRY_AWAY")
	}
	writer, err := avro.Parse(found.Schema)
	if err != nil {
		return nil, dead("not a schema of Avro", err)
	}
	resolved, err := avro.Resolve(writer, orderSchema)
	if err != nil {
		return nil, dead("not a schema of orders", err)
	}
	o.schemas.Store(id, resolved)
	return resolved, nil
}

func (o *orders) decode(ctx context.Context, data []byte) (order Order, err error) {
	id, encoded, err := new(sr.ConfluentHeader).DecodeID(data)
	if err != nil {
		return order, dead("not in the format of a schema registry", err)
	}
	schema, err := o.schema(ctx, id)
	if err != nil {
		return order, err
	}
	if _, err := schema.Decode(encoded, &order); err != nil {
		return order, dead("not an order", err)
	}
	return order, nil
}

func (o *orders) take(ctx context.Context, d *inboxd.Delivery) error {
	if d.Event.IsTombstone() {
		return nil
	}
	order, err := o.decode(ctx, d.Event.Data)
	if err != nil {
		return err
	}
	d.SetResult(order)
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	registry, err := sr.NewClient(sr.URLs(os.Getenv("SCHEMA_REGISTRY_URL"))) // a request takes 5 s at most
	if err != nil {
		log.Fatal(err)
	}
	o := &orders{registry: registry}
	handler := inboxd.NewHandler("orders")
	handler.On(inboxd.Types("order.*"), o.take)
	if err := handler.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
