package idempotency

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A response is kept back until the COMMIT. It is the [http.ResponseWriter] of the handler.
type response struct {
	header   http.Header
	status   int
	body     bytes.Buffer
	sent     http.Header // what the handler had set when it wrote the status
	tooLarge bool
}

var notStored = []int{401, 403, 408, 409, 425, 429}

// The largest response that the database stores.
const maxResponse = 1 << 20

// The database is unavailable or busy: the classes 08, 40, 53 and 57 of SQLSTATE, and a server that is read-only. The other errors are the
// service's: an argument is wrong, a right is missing, or a statement of the handler failed, and the handler went on.
var away = regexp.MustCompile(`^(08|40|53|57|25006)`)

// Headers that belong to one connection or one client.
var dropped = strings.Fields("connection keep-alive proxy-authenticate proxy-authorization proxy-connection set-cookie set-cookie2 te trailer" +
	" transfer-encoding upgrade content-length date")

func (r *response) Header() http.Header {
	return r.header
}

func (r *response) WriteHeader(status int) {
	if r.sent == nil && status >= 200 { // the others are information that precedes the response
		r.status, r.sent = status, r.header.Clone()
	}
}

func (r *response) Write(data []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if r.tooLarge = r.tooLarge || r.body.Len()+len(data) > maxResponse; r.tooLarge {
		return len(data), nil
	}
	return r.body.Write(data)
}

// end completes the response as net/http does when a handler returns.
func (r *response) end() {
	r.WriteHeader(http.StatusOK)
	r.header = r.sent
	if r.body.Len() > 0 && r.header.Get("Content-Type") == "" {
		r.header.Set("Content-Type", http.DetectContentType(r.body.Bytes()))
	}
}

// stored returns the headers that copies of the request get, too, as JSON.
func (r *response) stored() string {
	kept := make(map[string]string)
	for name, values := range r.header {
		if name = strings.ToLower(name); !slices.Contains(dropped, name) {
			kept[name] = strings.Join(values, ", ")
		}
	}
	text, _ := json.Marshal(kept)
	return string(text)
}

func (r *response) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), r.header)
	if r.status != http.StatusNoContent && r.status != http.StatusNotModified {
		w.Header().Set("Content-Length", strconv.Itoa(r.body.Len()))
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body.Bytes())
}

// problem returns a response as RFC 9457 describes it.
func problem(status int, kind, detail string) *response {
	made := &response{header: http.Header{"Content-Type": {"application/problem+json"}}, status: status}
	_ = json.NewEncoder(&made.body).Encode(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{kind, http.StatusText(status), status, detail})
	return made
}

// A claim is what request_begin() returns.
type claim struct {
	verdict            string
	token, headers     *string
	status, retryAfter *int
	body               []byte
	expires            *int64
}

func (c *claim) expiry() string {
	return time.Unix(*c.expires, 0).UTC().Format(http.TimeFormat)
}

// response returns that of a copy that does not run.
func (c *claim) response() *response {
	var made *response
	switch c.verdict {
	case "replay":
		made = &response{header: http.Header{"Idempotency-Expires": {c.expiry()}, "Idempotent-Replayed": {"true"}}, status: *c.status}
		made.body.Write(c.body)
		var headers map[string]string
		if c.headers != nil {
			_ = json.Unmarshal([]byte(*c.headers), &headers)
		}
		for name, value := range headers {
			made.header.Set(name, value)
		}
	case "busy":
		made = problem(http.StatusConflict, "request-outstanding", "a request with this key runs at this moment; send it again later")
	case "mismatch":
		made = problem(http.StatusUnprocessableEntity, "key-reused", "this key was used for another request; use a new key for each request")
	default:
		made = problem(http.StatusConflict, "outcome-unknown", "nobody knows how far the request with this key came; ask the operator")
	}
	if c.retryAfter != nil {
		made.header.Set("Retry-After", strconv.Itoa(max(*c.retryAfter, 1)))
	}
	return made
}

func report(r *http.Request, err error) {
	slog.ErrorContext(r.Context(), "the request has no result", "method", r.Method, "path", r.URL.Path, "error", err)
}

// invalid is the response to an error of the service. Nothing has happened.
func invalid(r *http.Request, err error) *response {
	report(r, err)
	return problem(http.StatusInternalServerError, "response-invalid", "the request had no effect; the log of the service has the reason")
}

// failed is the response if the database fails. Then nothing has happened, or nobody knows: the next copy of the request tells.
func failed(r *http.Request, err error) *response {
	var state interface{ SQLState() string }
	if errors.As(err, &state) && !away.MatchString(state.SQLState()) {
		return invalid(r, err)
	}
	report(r, err)
	made := problem(http.StatusServiceUnavailable, "database-away", "the request has no result; send it again with the same key")
	made.header.Set("Retry-After", "1")
	return made
}
