package inboxd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	connectTimeout = 10 * time.Second
	livedTime      = 10 * time.Second
)

// ErrDrainTimeout is what [Handler.Run] returns if functions still ran at the end of [DrainTimeout]. Their messages come again.
var ErrDrainTimeout = errors.New("inboxd: functions still ran after the drain timeout: their messages come again")

// A RefusedError says that inboxd does not want this handler, and that another try would not help.
type RefusedError struct {
	Code    int // of the protocol
	Message string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("inboxd refuses this handler: %s (%d)", e.Message, e.Code)
}

// A Func processes a message. If it returns nil, the message is done. A [Verdict] says what else happens to it; after any other error
// the message comes again, with the text of the error as the reason.
//
// The context is that of the delivery, see [Delivery.Context]. It does not end with that of [Handler.Run], but has its values.
type Func func(ctx context.Context, d *Delivery) error

// A BatchFunc processes several messages. If it returns nil, each of them is done. An error is the verdict for all; in an ordered batch
// for the first of each key, and the later ones come again after it. [Delivery.SetVerdict] gives a message another verdict.
//
// The context is cancelled when inboxd waits for none of the messages.
type BatchFunc func(ctx context.Context, b *Batch) error

// A Handler gets messages from inboxd and calls functions with them.
//
// All connections of one name share its messages, so use one name for each use of the messages. Register functions with On or OnBatch,
// then call Run.
type Handler struct {
	name    string
	options options
	routes  routes

	running atomic.Bool

	awaySince time.Time      // of Run: since when there is no connection
	work      sync.WaitGroup // goroutines with functions

	mu          sync.Mutex
	maxInFlight int
	session     *session
}

// NewHandler returns a handler with this name.
func NewHandler(name string, opts ...Option) *Handler {
	h := &Handler{name: name, options: optionsOf(opts)}
	h.maxInFlight = h.options.maxInFlight
	return h
}

// On registers a function for messages. The function with the most specific subscription gets a message. On panics if there is an equal
// subscription.
func (h *Handler) On(messages Subscription, f Func) {
	h.routes.add(messages, f, nil)
}

// OnBatch registers a function for messages that come together.
func (h *Handler) OnBatch(messages Subscription, f BatchFunc) {
	h.routes.add(messages, nil, f)
}

// SetMaxInFlight changes how many messages this process may hold; 0 is a pause. It also holds for later connections.
func (h *Handler) SetMaxInFlight(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.maxInFlight = n
	if h.session != nil {
		h.session.setWindow(n)
	}
}

// Run handles messages until the context ends. It connects to inboxd, and connects again whenever the connection is lost.
//
// When the context ends, Run drains: it asks inboxd to send no more, waits for the functions that run, and returns nil. It returns a
// [*RefusedError] if inboxd does not want this handler, and [ErrDrainTimeout].
func (h *Handler) Run(ctx context.Context) error {
	if len(h.routes) == 0 {
		return errors.New("inboxd: the handler has no function: register one with On")
	}
	if !h.running.CompareAndSwap(false, true) {
		return errors.New("inboxd: the handler runs already")
	}
	defer h.running.Store(false)
	failures := 0
	h.awaySince = time.Time{}
	for ctx.Err() == nil {
		lived, err := h.connect(ctx)
		var refused *RefusedError
		switch {
		case errors.As(err, &refused), errors.Is(err, ErrDrainTimeout):
			return err
		case ctx.Err() != nil:
		case err != nil:
			h.options.logger.Warn("no connection to inboxd", "error", err)
			if h.awaySince.IsZero() {
				h.awaySince = time.Now()
			}
		}
		if lived {
			failures = 0
		}
		h.pause(ctx, failures)
		failures++
	}
	return h.wait()
}

// connect serves one connection until its end. It reports whether the next one may come soon: inboxd may end each connection after its
// hello, and the waits must grow then.
func (h *Handler) connect(ctx context.Context) (lived bool, err error) {
	dialer := net.Dialer{Timeout: connectTimeout}
	conn, err := dialer.DialContext(ctx, "unix", h.options.socket)
	if err != nil {
		return false, err
	}
	s := newSession(h, conn, context.WithoutCancel(ctx))
	h.setSession(s)
	defer h.setSession(nil)
	err = s.run(ctx)
	return s.delivered || s.greeted && time.Since(s.greetedAt) >= livedTime, err
}

// isBack logs the end of the time without a connection, at the level of its beginning.
func (h *Handler) isBack() {
	if !h.awaySince.IsZero() {
		h.options.logger.Warn("connected to inboxd again", "away", time.Since(h.awaySince).Round(time.Millisecond))
		h.awaySince = time.Time{}
	}
}

func (h *Handler) setSession(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.session = s
}

// pause waits before the next connection. With full jitter: many handlers that lost the same sidecar must not come back at the same
// time.
func (h *Handler) pause(ctx context.Context, failures int) {
	longest := h.options.backoffMost
	if d := h.options.backoffFirst << min(failures, 30); d > 0 {
		longest = min(d, longest)
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(rand.Float64() * float64(longest))):
	}
}

// wait waits for the functions of connections that have ended, whose contexts are cancelled.
func (h *Handler) wait() error {
	done := make(chan struct{})
	go func() {
		h.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-time.After(h.options.drainTimeout):
		return ErrDrainTimeout
	}
}

// hello returns the params of the hello, and the window in it.
func (h *Handler) hello() (params []byte, window int, err error) {
	type batch struct {
		Max     int   `json:"max"`
		WaitMS  int64 `json:"wait_ms"`
		Ordered bool  `json:"ordered,omitempty"`
	}
	o := &h.options
	most := o.batchMax
	if most == 0 && h.routes.haveBatches() {
		most = 100
	}
	h.mu.Lock()
	window = h.maxInFlight
	h.mu.Unlock()
	params, err = json.Marshal(struct {
		Protocol    [1]int           `json:"protocol"`
		Handler     string           `json:"handler"`
		Consumer    string           `json:"consumer,omitempty"`
		Instance    string           `json:"instance,omitempty"`
		Client      string           `json:"client"`
		Subscribe   []subscribeEntry `json:"subscribe,omitempty"`
		MaxInFlight int              `json:"max_in_flight"`
		TimeoutMS   int64            `json:"timeout_ms"`
		Batch       batch            `json:"batch"`
	}{
		[1]int{1}, h.name, o.consumer, o.instance, "inboxd-go/" + Version, h.routes.subscribe(), window, milliseconds(o.timeout),
		batch{max(most, 1), o.batchWait.Milliseconds(), o.ordered},
	})
	return params, window, err
}

// renewWindow sends the window if it has changed since the hello.
func (h *Handler) renewWindow(s *session, said int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.maxInFlight != said {
		s.setWindow(h.maxInFlight)
	}
}

// milliseconds rounds to at least one, because inboxd takes no timeout of 0.
func milliseconds(d time.Duration) int64 {
	return max(d.Round(time.Millisecond).Milliseconds(), 1)
}
