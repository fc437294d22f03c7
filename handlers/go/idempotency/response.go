package idempotency

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"unicode/utf8"
)

// A response is kept back until the COMMIT. It is the [http.ResponseWriter] of the handler.
type response struct {
	header   http.Header
	status   int
	body     bytes.Buffer
	sent     http.Header // what the handler had set when it wrote the status
	tooLarge bool
}

// The database stores no larger one.
const maxResponse = 1 << 20

// The database is unavailable or busy: the classes 08, 40, 53 and 57 of SQLSTATE, and a server that is read-only. The other errors are the
// service's: an argument is wrong, a right is missing, or a statement of the handler failed, and the handler went on.
var away = regexp.MustCompile(`^(08|25006|40|53|55006|55P03|57)`)

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
	if state := sqlState(err); state != "" && !away.MatchString(state) {
		return invalid(r, err)
	}
	report(r, err)
	made := problem(http.StatusServiceUnavailable, "database-away", "the request has no result; send it again with the same key")
	made.header.Set("Retry-After", "1")
	return made
}

// sqlState returns the SQLSTATE of an error of PostgreSQL.
func sqlState(err error) string {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return state.SQLState()
	}
	return ""
}

// text is s as PostgreSQL takes it: if it is not UTF-8, each byte is a character, as in a header of HTTP.
func text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	characters := make([]rune, len(s))
	for i := range len(s) {
		characters[i] = rune(s[i])
	}
	return string(characters)
}
