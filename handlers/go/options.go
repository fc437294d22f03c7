package inboxd

import (
	"log/slog"
	"os"
	"time"
)

const defaultSocket = "/run/inboxd/inbox.sock"

// An Option changes a [Handler] at [NewHandler].
type Option func(*options)

type options struct {
	socket       string
	consumer     string
	instance     string
	maxInFlight  int
	timeout      time.Duration
	extendUpTo   time.Duration
	batchMax     int
	batchWait    time.Duration
	ordered      bool
	backoffFirst time.Duration
	backoffMost  time.Duration
	drainTimeout time.Duration
	onError      func(*Delivery, error) error
	logger       *slog.Logger
}

func optionsOf(changes []Option) options {
	o := options{
		socket:       defaultSocket,
		maxInFlight:  64,
		timeout:      30 * time.Second,
		extendUpTo:   10 * time.Minute,
		backoffFirst: 100 * time.Millisecond,
		backoffMost:  10 * time.Second,
		drainTimeout: 25 * time.Second,
		onError:      func(*Delivery, error) error { return nil },
		logger:       slog.Default(),
	}
	if path := os.Getenv("INBOXD_SOCKET_PATH"); path != "" {
		o.socket = path
	}
	o.instance, _ = os.Hostname()
	for _, change := range changes {
		change(&o)
	}
	return o
}

// Socket is the path of the Unix socket of inboxd. Without it: $INBOXD_SOCKET_PATH, or /run/inboxd/inbox.sock.
func Socket(path string) Option {
	return func(o *options) { o.socket = path }
}

// Consumer is the consumer whose messages the handler gets, if the configuration of inboxd has several.
func Consumer(name string) Option {
	return func(o *options) { o.consumer = name }
}

// Instance is who this process is among those with the name of the handler, for operators. Without it: the name of the host.
func Instance(name string) Option {
	return func(o *options) { o.instance = name }
}

// MaxInFlight is the number of messages that this process may hold at a time; 0 is a pause. The functions work on all of them at once,
// each in a goroutine. Without it: 64.
func MaxInFlight(n int) Option {
	return func(o *options) { o.maxInFlight = n }
}

// Timeout is the time after which an answer is late. The library extends it while a function works. Without it: 30 s.
func Timeout(d time.Duration) Option {
	return func(o *options) { o.timeout = d }
}

// ExtendUpTo is the time after the arrival of a message until which the library extends its deadline. Without it: 10 min.
func ExtendUpTo(d time.Duration) Option {
	return func(o *options) { o.extendUpTo = d }
}

// Batches lets up to size messages come together. A batch may wait so long to fill. Without it: 100 if there is a function for batches,
// otherwise 1, and no wait.
func Batches(size int, wait time.Duration) Option {
	return func(o *options) { o.batchMax, o.batchWait = size, wait }
}

// OrderedBatches lets a batch have several messages of a key, in order. After a message that is not done, the library skips the later
// ones of its key.
func OrderedBatches() Option {
	return func(o *options) { o.ordered = true }
}

// ReconnectBackoff is the first and the longest wait before the handler connects again; the wait is multiplied by a random number.
// Without it: 100 ms and 10 s.
func ReconnectBackoff(first, most time.Duration) Option {
	return func(o *options) { o.backoffFirst, o.backoffMost = first, most }
}

// DrainTimeout is the time that running functions have when the context of [Handler.Run] ends. Without it: 25 s.
func DrainTimeout(d time.Duration) Option {
	return func(o *options) { o.drainTimeout = d }
}

// OnError is called with each error of a function, also a verdict. The error that it returns takes its place; nil leaves it.
func OnError(f func(*Delivery, error) error) Option {
	return func(o *options) { o.onError = f }
}

// Logger is where the library reports what it does. It reports no payloads. Without it: [slog.Default].
func Logger(l *slog.Logger) Option {
	return func(o *options) { o.logger = l }
}
