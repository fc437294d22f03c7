package inboxd_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"inboxd"
)

const patience = 10 * time.Second

type object = map[string]any

// A sidecar plays inboxd on a socket, for one connection at a time.
type sidecar struct {
	t        *testing.T
	path     string
	listener net.Listener
	conn     net.Conn
	lines    *bufio.Reader
}

func newSidecar(t *testing.T) *sidecar {
	t.Helper()
	s := &sidecar{t: t, path: filepath.Join(t.TempDir(), "inbox.sock")}
	var err error
	if s.listener, err = net.Listen("unix", s.path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.listener.Close() })
	return s
}

// connection takes the next connection, and returns the params of its hello.
func (s *sidecar) connection() object {
	s.t.Helper()
	s.hangUp()
	_ = s.listener.(*net.UnixListener).SetDeadline(time.Now().Add(patience))
	conn, err := s.listener.Accept()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	s.conn, s.lines = conn, bufio.NewReader(conn)
	hello := s.read()
	if hello["method"] != "hello" {
		s.t.Fatalf("the first line is %v", hello)
	}
	return hello["params"].(object)
}

// accept takes the next connection, and accepts its hello. terms are members of the reply.
func (s *sidecar) accept(terms object) object {
	s.t.Helper()
	hello := s.connection()
	reply := object{"protocol": 1, "session": "s1", "timeout_ms": 30_000, "ordering": "key"}
	maps.Copy(reply, terms)
	s.send(object{"id": 1, "result": reply})
	return hello
}

// read returns the next line; nil at the end of the connection.
func (s *sidecar) read() object {
	s.t.Helper()
	_ = s.conn.SetReadDeadline(time.Now().Add(patience))
	line, err := s.lines.ReadBytes('\n')
	if errors.Is(err, io.EOF) && len(line) == 0 {
		return nil
	}
	var message object
	if err == nil {
		err = json.Unmarshal(line, &message)
	}
	if err != nil {
		s.t.Fatalf("%q: %v", line, err)
	}
	return message
}

func (s *sidecar) send(message object) {
	s.t.Helper()
	message["jsonrpc"] = "2.0"
	text, err := json.Marshal(message)
	if err != nil {
		s.t.Fatal(err)
	}
	s.sendText(string(text))
}

func (s *sidecar) sendText(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s.conn, line+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

// deliver sends the delivery d<number>, with more attributes of its event.
func (s *sidecar) deliver(number int, attributes object) {
	s.t.Helper()
	s.send(object{"id": fmt.Sprintf("d%d", number), "method": "deliver", "params": params(number, attributes)})
}

// batch sends the batch b1 with the deliveries d1, d2, …
func (s *sidecar) batch(events ...object) {
	s.t.Helper()
	var entries []object
	for i, attributes := range events {
		entry := params(i+1, attributes)
		entry["id"] = fmt.Sprintf("d%d", i+1)
		entries = append(entries, entry)
	}
	s.send(object{"id": "b1", "method": "deliver_batch", "params": object{"entries": entries}})
}

func params(number int, attributes object) object {
	event := object{
		"specversion": "1.0", "id": fmt.Sprintf("A%d", number), "source": "orders", "type": "order.created", "kafkatopic": "orders",
		"kafkapartition": 3, "kafkaoffset": "7", "data": object{"order": number},
	}
	maps.Copy(event, attributes)
	delivery := object{"claim": fmt.Sprintf("%d.1.17", number), "seq": fmt.Sprint(number), "attempt": 1, "max_attempts": 10}
	return object{"delivery": delivery, "event": event, "headers": []any{}}
}

func (s *sidecar) cancel(number int, reason string) {
	s.t.Helper()
	s.send(object{"method": "cancel", "params": object{"delivery": fmt.Sprintf("d%d", number), "reason": reason}})
}

// answer returns the result of the answer that comes next.
func (s *sidecar) answer(number int) object {
	s.t.Helper()
	message := s.read()
	if message["id"] != fmt.Sprintf("d%d", number) {
		s.t.Fatalf("expected the answer to d%d, got %v", number, message)
	}
	return message["result"].(object)
}

// answers returns the entries of the answer for the batch by their ids.
func (s *sidecar) answers() map[string]object {
	s.t.Helper()
	message := s.read()
	if message["id"] != "b1" {
		s.t.Fatalf("expected the answer to the batch, got %v", message)
	}
	all := make(map[string]object)
	for _, entry := range message["result"].(object)["entries"].([]any) {
		entry := entry.(object)
		all[entry["id"].(string)] = entry
	}
	return all
}

// statuses returns the status of each entry, in the order of the batch.
func (s *sidecar) statuses() []string {
	s.t.Helper()
	all := s.answers()
	var statuses []string
	for _, id := range slices.Sorted(maps.Keys(all)) {
		statuses = append(statuses, all[id]["status"].(string))
	}
	return statuses
}

// expectDrain waits for the drain and returns what answers it.
func (s *sidecar) expectDrain() (reply func()) {
	s.t.Helper()
	drain := s.read()
	if drain["method"] != "drain" {
		s.t.Fatalf("expected drain, got %v", drain)
	}
	return func() { s.send(object{"id": drain["id"], "result": object{"in_flight": 0}}) }
}

func (s *sidecar) hangUp() {
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}

// A running handler.
type running struct {
	*inboxd.Handler
	stop  context.CancelFunc
	ended chan error
}

// start runs a handler until the end of the test.
func (s *sidecar) start(register func(h *inboxd.Handler), opts ...inboxd.Option) *running {
	s.t.Helper()
	opts = append([]inboxd.Option{
		inboxd.Socket(s.path), inboxd.Logger(slog.New(slog.NewTextHandler(io.Discard, nil))), inboxd.ReconnectBackoff(10*time.Millisecond, 50*time.Millisecond),
		inboxd.DrainTimeout(2 * time.Second),
	}, opts...)
	h := inboxd.NewHandler("billing", opts...)
	register(h)
	ctx, stop := context.WithCancel(context.Background())
	r := &running{h, stop, make(chan error, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.ended <- h.Run(ctx)
	}()
	s.t.Cleanup(func() {
		stop()
		s.hangUp()
		<-done
	})
	return r
}

// wait returns what Run returns.
func (r *running) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(patience):
		t.Fatal("the handler does not end")
		return nil
	}
}

// on returns a function that registers f for every message.
func on(f inboxd.Func) func(*inboxd.Handler) {
	return func(h *inboxd.Handler) { h.On(inboxd.Everything, f) }
}

func onBatch(f inboxd.BatchFunc) func(*inboxd.Handler) {
	return func(h *inboxd.Handler) { h.OnBatch(inboxd.Everything, f) }
}

// returns returns a function that returns this.
func returns(err error) func(*inboxd.Handler) {
	return on(func(context.Context, *inboxd.Delivery) error { return err })
}

var done = returns(nil)

func equal(t *testing.T, got, want any) {
	t.Helper()
	text := func(value any) string {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if text(got) != text(want) {
		t.Errorf("got %s, want %s", text(got), text(want))
	}
}

// receive returns what comes from the channel.
func receive[T any](t *testing.T, values <-chan T) T {
	t.Helper()
	select {
	case value := <-values:
		return value
	case <-time.After(patience):
		t.Fatal("nothing comes")
		panic("unreachable")
	}
}
