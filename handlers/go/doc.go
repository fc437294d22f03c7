// Package inboxd is a library for handlers of inboxd, a sidecar that reads messages from Kafka, stores each one in PostgreSQL, and
// delivers it to a handler: the code of a service that processes messages.
//
// A handler registers functions and runs. The library connects to inboxd, connects again after a loss, calls the functions, and sends
// the answers:
//
//	handler := inboxd.NewHandler("demo")
//	handler.On(inboxd.Everything, func(ctx context.Context, d *inboxd.Delivery) error {
//		fmt.Printf("%s %s\n", d.Event.Type, d.Event.Data)
//		return nil
//	})
//	err := handler.Run(ctx)
//
// # What happens to a message
//
// If the function returns nil, the message is done. If it returns an error, or the process ends, inboxd delivers the message again. So
// a function can get a message twice. [Retry], [Dead], [Snooze] and [Skip] make errors that say what happens to the message. Any other
// error, and a panic, is a retry after the backoff of inboxd, with the text of the error as its reason; its code is the SQLSTATE, or what
// a method Code() string of the error returns, or HANDLER_ERROR.
//
// # Effects exactly once
//
// If the effects of a function are in the PostgreSQL database of the inbox, they can happen exactly once. [CompletePGX] and
// [CompleteSQL] run a transaction that commits the effects and the completion of the message together, or neither. [Delivery.Complete]
// completes the message in a transaction of your own.
//
// # Context
//
// The context of a function is cancelled when inboxd does not wait for an answer any more, for example after the timeout; its cause is
// a [*CancelError]. The library extends the deadline of each message by itself while the function works, up to [ExtendUpTo].
package inboxd
