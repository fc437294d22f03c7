package inboxd

import "errors"

// A message is one line of inboxd: a request, a notification or an answer.
type message struct {
	id      []byte // as it is written; nil if there is none
	method  string
	params  params
	result  []byte // JSON; nil if there is none
	failure []byte // the member error, likewise
}

// params are those of deliver, of deliver_batch and its entries, and of cancel.
type params struct {
	id        []byte
	delivery  *Delivery // nil until there is a part of one
	parts     int       // two if there are a delivery and an event
	entries   []params
	cancelled string // the id of the delivery
	reason    string
}

const deliverable = 2

// parseMessage reads a line. The message refers to the line, which must not change afterwards.
func parseMessage(line []byte) (message, error) {
	var m message
	s := scanner{data: line}
	if s.peek() != '{' {
		return m, errors.New("it is not an object")
	}
	s.object(func(name []byte) {
		switch string(name) {
		case "id":
			m.id = s.raw()
		case "method":
			m.method = s.text()
		case "params":
			m.params = s.params()
		case "result":
			m.result = s.notNull()
		case "error":
			m.failure = s.notNull()
		default:
			s.skip()
		}
	})
	if s.peek(); s.pos < len(line) {
		s.fail("the end of the line")
	}
	return m, s.err
}

func (s *scanner) notNull() []byte {
	if value := s.raw(); string(value) != "null" {
		return value
	}
	return nil
}

func (s *scanner) params() params {
	var p params
	if s.peek() != '{' {
		s.skip()
		return p
	}
	part := func() *Delivery {
		if p.delivery == nil {
			p.delivery = new(Delivery)
		}
		return p.delivery
	}
	s.object(func(name []byte) {
		kind := s.peek()
		switch {
		case string(name) == "id":
			p.id = s.raw()
		case string(name) == "delivery" && kind == '{':
			p.parts++
			s.delivery(part())
		case string(name) == "delivery":
			p.cancelled = s.text()
		case string(name) == "event" && kind == '{':
			p.parts++
			s.event(&part().Event)
		case string(name) == "headers" && kind == '[':
			s.headers(part())
		case string(name) == "entries" && kind == '[':
			s.array(func() { p.entries = append(p.entries, s.params()) })
		case string(name) == "reason":
			p.reason = s.text()
		default:
			s.skip()
		}
	})
	return p
}

func (s *scanner) delivery(d *Delivery) {
	s.object(func(name []byte) {
		switch string(name) {
		case "claim":
			d.Claim = s.text()
		case "seq":
			d.Seq = s.integer()
		case "attempt":
			d.Attempt = int(s.integer())
		case "max_attempts":
			d.MaxAttempts = int(s.integer())
		case "deadline":
			d.Deadline = s.time()
		case "replay":
			d.Replay = s.boolean()
		case "consumer":
			d.Consumer = s.text()
		default:
			s.skip()
		}
	})
}

func (s *scanner) headers(d *Delivery) {
	s.array(func() {
		if s.peek() != '[' {
			s.skip()
			return
		}
		var header Header
		at := 0
		s.array(func() {
			switch at++; at {
			case 1:
				header.Key = string(s.textOrBytes())
			case 2:
				header.Value = s.textOrBytes()
			default:
				s.skip()
			}
		})
		d.Headers = append(d.Headers, header)
	})
}

func (s *scanner) event(e *Event) {
	s.object(func(name []byte) {
		switch string(name) {
		case "specversion":
			s.skip()
		case "data":
			e.Data, e.Binary = s.raw(), false
		case "data_base64":
			if data := s.base64(); data != nil {
				e.Data, e.Binary = data, true
			}
		case "time":
			e.Time = s.time()
		case "partitionkey":
			if key, ok := s.optional(); ok {
				e.Key = append([]byte{}, key...)
			}
		case "partitionkeybase64":
			if key := s.base64(); key != nil {
				e.Key = key
			}
		case "kafkapartition":
			e.Partition = int32(s.integer())
		case "kafkaoffset":
			e.Offset = s.integer()
		default:
			s.attribute(e, name)
		}
	})
}

// attribute reads an attribute that is a text.
func (s *scanner) attribute(e *Event, name []byte) {
	if known := e.attribute(string(name)); known != nil {
		*known = s.text()
	} else if value, ok := s.optional(); ok {
		if e.Extensions == nil {
			e.Extensions = make(map[string]string)
		}
		e.Extensions[string(name)] = value
	}
}
