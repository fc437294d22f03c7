// Package testkit lets the package inboxdtest into inboxd. It has no types of inboxd, because that imports it.
package testkit

// An Outcome is what a delivery has led to.
type Outcome struct {
	Members        string // of the answer
	Completed      bool
	Result, Events []byte
	Err            error
}

var (
	// Load returns a *inboxd.Delivery of the params of a delivery.
	Load func(params []byte) (any, error)
	// Deliver delivers a []*inboxd.Delivery to a *inboxd.Handler.
	Deliver func(handler, deliveries any, together bool, ordering string) []Outcome
)
