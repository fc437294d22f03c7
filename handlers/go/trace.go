package inboxd

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// A TraceContext is the trace that a message belongs to, as W3C Trace Context defines it.
//
// A program with OpenTelemetry passes Headers to the propagator. A program without a tracing library sends the headers of Child with
// its own requests.
type TraceContext struct {
	TraceID  [16]byte
	ParentID [8]byte
	Flags    byte
	State    string // tracestate
}

// ParseTraceContext reads the headers of a trace context. It returns false if they are absent or not valid.
func ParseTraceContext(traceparent, tracestate string) (TraceContext, bool) {
	const length = len("00-") + 32 + len("-") + 16 + len("-00")
	t := TraceContext{State: tracestate}
	// Later versions may have more parts behind these.
	if len(traceparent) < length || traceparent[:2] == "ff" || len(traceparent) > length && (traceparent[:2] == "00" || traceparent[length] != '-') {
		return t, false
	}
	parts := strings.Split(traceparent[:length], "-")
	if len(parts) != 4 || len(parts[0]) != 2 {
		return t, false
	}
	var version, flags [1]byte
	ok := unhex(version[:], parts[0]) && unhex(t.TraceID[:], parts[1]) && unhex(t.ParentID[:], parts[2]) && unhex(flags[:], parts[3])
	t.Flags = flags[0]
	return t, ok && t.TraceID != [16]byte{} && t.ParentID != [8]byte{}
}

func unhex(to []byte, text string) bool {
	if len(text) != 2*len(to) || text != strings.ToLower(text) {
		return false
	}
	_, err := hex.Decode(to, []byte(text))
	return err == nil
}

// Sampled reports whether the producer has recorded the trace.
func (t TraceContext) Sampled() bool {
	return t.Flags&1 == 1
}

// Child returns the same trace with a new span as the parent.
func (t TraceContext) Child() TraceContext {
	_, _ = rand.Read(t.ParentID[:])
	return t
}

// TraceParent returns the header traceparent.
func (t TraceContext) TraceParent() string {
	return "00-" + hex.EncodeToString(t.TraceID[:]) + "-" + hex.EncodeToString(t.ParentID[:]) + "-" + hex.EncodeToString([]byte{t.Flags})
}

// Headers returns traceparent and, if there is one, tracestate.
func (t TraceContext) Headers() map[string]string {
	headers := map[string]string{"traceparent": t.TraceParent()}
	if t.State != "" {
		headers["tracestate"] = t.State
	}
	return headers
}
