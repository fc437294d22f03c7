package inboxd

import (
	"context"
	"errors"
	"iter"
)

// A Batch is the messages that a function for batches gets together, in order.
type Batch struct {
	Deliveries []*Delivery

	ordering string
}

// All iterates over the messages. In an ordered batch it leaves out the messages behind one that has got a verdict other than [Dead] by
// [Delivery.SetVerdict]. They come again after it, in order.
func (b *Batch) All() iter.Seq[*Delivery] {
	return func(yield func(*Delivery) bool) {
		held := make(map[lane]bool)
		for _, d := range b.Deliveries {
			its := d.lane(b.ordering)
			if !held[its] && !yield(d) {
				return
			}
			if d.decided && !d.answer(d.verdict).finished {
				held[its] = true
			}
		}
	}
}

// remember is that of each delivery.
func (b *Batch) remember() (forget func()) {
	var all []func()
	for _, d := range b.Deliveries {
		all = append(all, d.remember())
	}
	return func() {
		for _, forget := range all {
			forget()
		}
	}
}

// lanes returns the deliveries of each lane, in order.
func lanes(deliveries []*Delivery, ordering string) [][]*Delivery {
	var all [][]*Delivery
	at := make(map[lane]int)
	for _, d := range deliveries {
		its := d.lane(ordering)
		i, ok := at[its]
		if !ok {
			i = len(all)
			at[its] = i
			all = append(all, nil)
		}
		all[i] = append(all[i], d)
	}
	return all
}

// withContext returns a context that is cancelled when inboxd waits for none of the deliveries. The caller must call release.
func withContext(base context.Context, deliveries []*Delivery) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(base)
	waiting := make(chan struct{}, len(deliveries))
	stops := make([]func() bool, len(deliveries))
	for i, d := range deliveries {
		stops[i] = context.AfterFunc(d.ctx, func() {
			waiting <- struct{}{}
			if len(waiting) == cap(waiting) {
				cancel(context.Cause(d.ctx))
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// lostOf returns the claim that the error says is lost.
func lostOf(err error) (claim string, ok bool) {
	var lost *ClaimLostError
	if errors.As(err, &lost) {
		return lost.Claim, true
	}
	return "", isClaimLost(err)
}
