package inboxd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"
)

const (
	maxLine      = 33_554_432
	helloTimeout = 10 * time.Second
	longestTick  = time.Minute
	readBuffer   = 256 << 10
	keptBuffer   = 1 << 20
	unsentMax    = 4 << 20 // beyond it, functions wait until inboxd has read

	helloID = "1"
	drainID = "2"
)

// A session is one connection to inboxd: it reads lines, keeps the open deliveries, and sends each answer once.
//
// One goroutine reads, one writes, one extends deadlines, and each message has its own. What they share is under mu.
type session struct {
	h    *Handler
	conn net.Conn
	base context.Context // of the functions
	ends context.CancelFunc

	// Set by the reader before the first delivery.
	greeted   bool
	greetedAt time.Time
	delivered bool
	ordering  string
	timeout   time.Duration
	maxLine   int

	mu       sync.Mutex
	open     map[string]*Delivery
	draining bool
	closing  bool // when everything is sent
	closed   bool
	isTest   bool  // of the test kit: nothing is completed in a database
	why      error // the connection ends because of it
	unsent   []byte
	written  sync.Cond // there is something to send, or the end
	sent     sync.Cond // unsent has become shorter, or the end
}

// newSession takes the connection.
func newSession(h *Handler, conn net.Conn, base context.Context) *session {
	s := &session{h: h, conn: conn, base: base, timeout: h.options.timeout, ordering: "none", maxLine: maxLine, open: make(map[string]*Delivery)}
	s.written.L, s.sent.L = &s.mu, &s.mu
	return s
}

// run serves the connection until its end. When the context ends, it drains.
func (s *session) run(ctx context.Context) error {
	hello, window, err := s.h.hello()
	if err != nil {
		s.conn.Close()
		return err
	}
	alive, ends := context.WithCancel(context.Background())
	s.ends = ends
	var helpers sync.WaitGroup
	helpers.Add(1)
	go func() {
		defer helpers.Done()
		s.write()
	}()
	stop := context.AfterFunc(ctx, func() { s.drain(alive) })
	s.send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"hello","params":%s}`, helloID, hello))
	err = s.read(func() {
		s.h.isBack()
		s.h.renewWindow(s, window)
		helpers.Add(1)
		go func() {
			defer helpers.Done()
			s.extendOpen(alive)
		}()
	})
	stop()
	s.end(err)
	helpers.Wait()
	return s.why
}

// end cancels what is open. The connection is over.
func (s *session) end(err error) {
	s.ends()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.why == nil {
		s.why = err
	}
	s.written.Broadcast()
	s.sent.Broadcast()
	s.conn.Close()
	for id, d := range s.open {
		delete(s.open, id)
		d.cancel(&CancelError{Reason: "connection_lost"})
	}
}

// Lines of inboxd

// read reads until the end of the connection. It calls onGreeted after the reply to hello.
func (s *session) read(onGreeted func()) error {
	_ = s.conn.SetReadDeadline(time.Now().Add(helloTimeout))
	reader := bufio.NewReaderSize(s.conn, readBuffer)
	for {
		line, err := readLine(reader)
		if err != nil {
			if isTimeout(err) {
				return errors.New("no reply to hello")
			}
			return fmt.Errorf("the connection was lost: %w", err)
		}
		greeted := s.greeted
		if err := s.onLine(line); err != nil {
			return err
		}
		if s.greeted && !greeted {
			_ = s.conn.SetReadDeadline(time.Time{})
			onGreeted()
		}
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// readLine returns a copy of the next line without its line feed.
func readLine(reader *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := reader.ReadSlice('\n')
		if err == nil && line == nil {
			return bytes.Clone(part[:len(part)-1]), nil
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > maxLine:
			return nil, errors.New("a line has more than 32 MiB")
		}
	}
}

// onLine returns an error if the connection cannot go on.
func (s *session) onLine(line []byte) error {
	m, err := parseMessage(line)
	if err != nil {
		return fmt.Errorf("a line of inboxd is not in the protocol: %w", err)
	}
	switch {
	case m.method == "":
		return s.onReply(&m)
	case !s.greeted:
		return fmt.Errorf("a line of inboxd is not in the protocol: %s before the reply to hello", m.method)
	case m.method == "deliver":
		s.onDeliver(&m)
	case m.method == "deliver_batch":
		s.onDeliverBatch(&m)
	case m.method == "cancel":
		s.onCancel(m.params.cancelled, m.params.reason)
	default:
		s.refuse(m.id, -32601, "this handler does not know "+m.method)
	}
	return nil
}

func (s *session) onReply(m *message) error {
	switch {
	case !s.greeted && string(m.id) == helloID:
		return s.onHelloReply(m)
	case string(m.id) == drainID:
		s.close()
	case m.failure != nil:
		s.h.options.logger.Warn("inboxd did not accept a line", "error", string(m.failure))
	}
	return nil
}

func (s *session) onHelloReply(m *message) error {
	if m.failure != nil {
		return refusal(m.failure)
	}
	var reply struct {
		Ordering  *string  `json:"ordering"`
		TimeoutMS *float64 `json:"timeout_ms"`
		MaxLine   *float64 `json:"max_line_bytes"`
	}
	if err := json.Unmarshal(m.result, &reply); err != nil {
		return fmt.Errorf("the reply to hello is not in the protocol: %w", err)
	}
	if reply.Ordering != nil {
		s.ordering = *reply.Ordering
	}
	if reply.TimeoutMS != nil {
		s.timeout = time.Duration(*reply.TimeoutMS * float64(time.Millisecond))
	}
	if reply.MaxLine != nil {
		s.maxLine = min(int(*reply.MaxLine), maxLine)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.greeted, s.greetedAt = true, time.Now()
	return nil
}

// refusal returns the error for an error in the reply to hello.
func refusal(failure []byte) error {
	var e struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	_ = json.Unmarshal(failure, &e)
	switch e.Code {
	case -32000, -32001, -32003, -32005, -32602:
		return &RefusedError{Code: e.Code, Message: e.Message}
	}
	return fmt.Errorf("inboxd does not accept this handler now: %s (%d)", e.Message, e.Code)
}

func (s *session) onDeliver(m *message) {
	if m.params.parts != deliverable || m.id == nil {
		s.refuse(m.id, -32602, "deliver needs a delivery and an event")
		return
	}
	d := m.params.delivery
	s.delivered = true
	s.adopt(d, m.id, nil, time.Now())
	s.accept(d)
}

func (s *session) onDeliverBatch(m *message) {
	entries := m.params.entries
	deliveries := make([]*Delivery, len(entries))
	g := &group{id: m.id, open: len(entries)}
	now := time.Now()
	for i := range entries {
		if entries[i].parts != deliverable || entries[i].id == nil {
			deliveries = nil
			break
		}
		deliveries[i] = entries[i].delivery
	}
	if len(deliveries) == 0 || m.id == nil {
		s.refuse(m.id, -32602, "deliver_batch needs entries with a delivery and an event")
		return
	}
	s.delivered = true
	for i, d := range deliveries {
		s.adopt(d, entries[i].id, g, now)
	}
	s.acceptBatch(deliveries)
}

// adopt makes the delivery one of this session.
func (s *session) adopt(d *Delivery, id []byte, g *group, now time.Time) {
	d.ID = textOf(id)
	d.session, d.group, d.wireID = s, g, id
	d.received, d.deadlineAt = now, now.Add(s.timeout)
	d.Attempt = max(d.Attempt, 1)
	d.ctx, d.cancel = context.WithCancelCause(s.base)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[d.ID] = d
}

func textOf(id []byte) string {
	s := scanner{data: id}
	return s.text()
}

func (s *session) onCancel(id, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.open[id]
	if d == nil {
		return
	}
	if reason == "" {
		reason = "timeout"
	}
	d.cancel(&CancelError{Reason: reason})
	s.answer(d, answer{})
}

func (s *session) refuse(id []byte, code int, text string) {
	if id != nil {
		s.send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, code, quote(text)))
	}
}

// Deliveries

// begin reports whether a function may have the delivery now: it is open, and the handler does not drain.
func (s *session) begin(d *Delivery) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[d.ID] != d {
		return false
	}
	if s.draining {
		s.answer(d, skippedAnswer)
		return false
	}
	d.begun = true
	return true
}

// settle answers the delivery, unless it was answered or cancelled before. It waits while inboxd does not read.
func (s *session) settle(d *Delivery, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer(d, a)
	for len(s.unsent) > unsentMax && !s.closed {
		s.sent.Wait()
	}
}

// answer is settle for who holds the lock and must not wait.
func (s *session) answer(d *Delivery, a answer) {
	if s.open[d.ID] != d {
		return
	}
	delete(s.open, d.ID)
	if d.group == nil && a.members != "" {
		if a.short != nil && len(a.members) > s.maxLine/2 {
			a = *a.short
		}
		s.unsent = append(append(append(s.unsent, `{"jsonrpc":"2.0","id":`...), d.wireID...), `,"result":{`...)
		s.unsent = append(append(s.unsent, a.members...), "}}\n"...)
	} else if d.group != nil {
		s.unsent = d.group.add(s.unsent, d, a, s.maxLine)
	}
	s.written.Signal()
}

func (s *session) extend(d *Delivery, timeout time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[d.ID] == d {
		s.extendLocked(d, timeout)
	}
}

func (s *session) extendLocked(d *Delivery, timeout time.Duration) {
	d.deadlineAt = time.Now().Add(timeout)
	s.sendLocked(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"extend","params":{"delivery":%s,"timeout_ms":%d}}`, d.wireID, milliseconds(timeout)))
}

// extendOpen extends what has less than two thirds of its time left, until the end of the connection.
func (s *session) extendOpen(alive context.Context) {
	ticker := time.NewTicker(max(min(s.timeout/4, longestTick), time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-alive.Done():
			return
		case now := <-ticker.C:
			s.mu.Lock()
			for _, d := range s.open {
				isDue := d.deadlineAt.Sub(now) < s.timeout/3*2
				timeout := min(s.timeout, s.h.options.extendUpTo-now.Sub(d.received))
				gain := min(timeout, now.Add(timeout).Sub(d.deadlineAt))
				if isDue && gain > time.Millisecond {
					s.extendLocked(d, timeout)
				}
			}
			s.mu.Unlock()
		}
	}
}

func (s *session) setWindow(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.greeted {
		s.sendLocked(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"window","params":{"max_in_flight":%d}}`, n))
	}
}

// A group is a batch: its answer is sent when each of its deliveries is answered or cancelled.
type group struct {
	id      []byte
	open    int
	entries []byte
}

// add adds the answer of one delivery. After the last one it appends the line.
func (g *group) add(line []byte, d *Delivery, a answer, maxLine int) []byte {
	g.open--
	if a.members != "" {
		if a.short != nil && len(g.entries)+len(a.members) > maxLine/2 {
			a = *a.short
		}
		if len(g.entries) > 0 {
			g.entries = append(g.entries, ',')
		}
		g.entries = append(append(append(g.entries, `{"id":`...), d.wireID...), ',')
		g.entries = append(append(g.entries, a.members...), '}')
	}
	if g.open > 0 || len(g.entries) == 0 {
		return line
	}
	line = append(append(append(line, `{"jsonrpc":"2.0","id":`...), g.id...), `,"result":{"entries":[`...)
	return append(append(line, g.entries...), "]}}\n"...)
}

// The end

// drain asks inboxd to end the connection. Messages that no function has seen come again at once.
func (s *session) drain(alive context.Context) {
	s.mu.Lock()
	if !s.greeted {
		s.mu.Unlock()
		s.close()
		return
	}
	s.draining = true
	for _, d := range s.open {
		if !d.begun {
			s.answer(d, skippedAnswer)
		}
	}
	s.sendLocked([]byte(`{"jsonrpc":"2.0","id":` + drainID + `,"method":"drain"}`))
	s.mu.Unlock()

	timer := time.NewTimer(s.h.options.drainTimeout)
	defer timer.Stop()
	select {
	case <-alive.Done():
	case <-timer.C:
		s.fail(ErrDrainTimeout)
	}
}

// close ends the connection when everything is sent.
func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	s.written.Signal()
}

// fail ends the connection at once.
func (s *session) fail(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == nil {
		s.why = why
	}
	s.conn.Close()
}

// Sending

func (s *session) send(line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sendLocked(line)
}

func (s *session) sendLocked(line []byte) {
	s.unsent = append(append(s.unsent, line...), '\n')
	s.written.Signal()
}

// write sends what there is, again and again. Lines that come while it writes go out together.
func (s *session) write() {
	defer s.conn.Close()
	var buffer []byte
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for len(s.unsent) == 0 && !s.closing && !s.closed {
			s.written.Wait()
		}
		if len(s.unsent) == 0 || s.closed {
			return
		}
		s.mu.Unlock()
		runtime.Gosched() // functions that end now go along
		s.mu.Lock()
		buffer, s.unsent = s.unsent, buffer[:0]
		s.sent.Broadcast()
		s.mu.Unlock()
		_, err := s.conn.Write(buffer)
		if cap(buffer) > keptBuffer {
			buffer = nil
		}
		s.mu.Lock()
		if err != nil {
			return
		}
	}
}
