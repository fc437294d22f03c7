// Package idempotency is a middleware for net/http: a request that is sent twice with one Idempotency-Key has its effects once, and one
// response.
//
// A request runs in a transaction, which the handler gets from [Tx]. The effects, the key and the response commit together, before the
// client gets the response. A response of 500 or more, and 401, 403, 408, 409, 425 and 429, roll back: the next copy of the request
// runs again. The database has the rules (docs/idempotency-keys.md of inboxd).
package idempotency

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	// The settings are the trace of the events that the request emits.
	begin = "SELECT verdict, token, status, headers::text, body, set_config('inboxd.traceparent', $8::text, true)," +
		" set_config('inboxd.tracestate', $9::text, true)" +
		" FROM inbox.http_request_begin($1::text, $2::text, $3::text, $4::bytea, $5::text, $6::text::interval, $7::boolean)"
	complete = "SELECT commits, expires FROM inbox.http_request_complete($1::text, $2::int, $3::text::jsonb, $4::bytea)"

	firstLook = 10 * time.Millisecond
)

// Rules are the options of a middleware. The zero value requires a key for each POST and PATCH.
type Rules struct {
	// Scope returns the owner of the key, such as the authenticated tenant. Do not take it from a value that the client can
	// choose. If Scope returns an error, the request does not run.
	Scope func(*http.Request) (string, error)
	// Fingerprint returns the bytes that are compared in place of the body. If it returns an error, the request does not run.
	// nil: the body is compared, without the boundary between the parts of a form, because each copy can have another boundary.
	Fingerprint  func(r *http.Request, body []byte) ([]byte, error)
	Optional     bool          // requests without a key run, too, each in a transaction
	Methods      []string      // nil: POST and PATCH
	Keep         time.Duration // until a key is forgotten; 0: 24 hours
	MaxBody      int64         // of a request; 0: 1 MiB
	Wait         time.Duration // how long a copy waits while another one runs, before it gets 409; 0: 250 ms; negative: not at all
	AbandonAfter time.Duration // how long a request may go on after its client has gone; 0: 10 s
}

// Middleware returns a middleware that keeps the keys in the database. The user of the database needs the role inboxd_service.
func Middleware(db DB, rules Rules) func(http.Handler) http.Handler {
	if rules.Methods == nil {
		rules.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if rules.Scope == nil {
		rules.Scope = func(*http.Request) (string, error) { return "", nil }
	}
	if rules.Fingerprint == nil {
		rules.Fingerprint = withoutBoundary
	}
	rules.Keep = cmp.Or(rules.Keep, 24*time.Hour)
	rules.MaxBody = cmp.Or(rules.MaxBody, 1<<20)
	rules.Wait = cmp.Or(rules.Wait, 250*time.Millisecond)
	rules.AbandonAfter = cmp.Or(rules.AbandonAfter, 10*time.Second)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if slices.Contains(rules.Methods, r.Method) {
				rules.serve(db, next, w, r).send(w)
			} else {
				next.ServeHTTP(w, r)
			}
		})
	}
}

// A keyedRequest is a request whose body was read.
type keyedRequest struct {
	*http.Request
	body        []byte
	scope       string
	fingerprint []byte
}

// serve returns the response. The transaction has ended.
func (rules *Rules) serve(db DB, next http.Handler, w http.ResponseWriter, r *http.Request) *response {
	request, refusal := rules.read(w, r)
	if refusal != nil {
		return refusal
	}
	ctx, end := outlive(r, rules.AbandonAfter)
	defer end()
	left := rules.Wait
	for look := firstLook; ; look *= 2 {
		made, isBusy := rules.run(ctx, db, next, request)
		if !isBusy || left <= 0 {
			return made
		}
		select { // without a connection
		case <-time.After(min(look, left)):
			left -= look
		case <-r.Context().Done():
			return made
		}
	}
}

// read returns the request, or why it does not run.
func (rules *Rules) read(w http.ResponseWriter, r *http.Request) (*keyedRequest, *response) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, rules.MaxBody))
	if large := new(http.MaxBytesError); errors.As(err, &large) {
		return nil, problem(http.StatusRequestEntityTooLarge, "request-too-large", fmt.Sprintf("a request with a key has at most %d bytes", rules.MaxBody))
	} else if err != nil {
		return nil, problem(http.StatusBadRequest, "request-incomplete", "the body of the request ended early; send it again with the same key")
	} else if hasKey := r.Header["Idempotency-Key"] != nil; hasKey && len(body) == 0 && (r.ContentLength > 0 || len(r.PostForm) > 0 || r.MultipartForm != nil) {
		return nil, problem(http.StatusUnsupportedMediaType, "request-unread", "the body was read before, so the server cannot compare the copies of the request")
	}
	scope, err := rules.Scope(r)
	if err != nil {
		return nil, invalid(r, err)
	}
	fingerprint, err := rules.Fingerprint(r, body)
	if err != nil {
		return nil, invalid(r, err)
	} else if fingerprint == nil {
		return nil, invalid(r, errors.New("the fingerprint of a request is nil"))
	}
	return &keyedRequest{r, body, scope, fingerprint}, nil
}

// outlive returns a context that ends some time after the client has gone, so that the handler can end and commit its work.
// The deadline of an outer handler still applies.
func outlive(r *http.Request, after time.Duration) (context.Context, context.CancelFunc) {
	lasting := context.WithoutCancel(r.Context())
	var cancel context.CancelFunc
	if deadline, ok := r.Context().Deadline(); ok {
		lasting, cancel = context.WithDeadline(lasting, deadline)
	} else {
		lasting, cancel = context.WithCancel(lasting)
	}
	stop := context.AfterFunc(r.Context(), func() {
		select {
		case <-time.After(after):
			report(r, errors.New("the client has gone, and the request did not end; its context ends"))
			cancel()
		case <-lasting.Done():
		}
	})
	return lasting, func() { stop(); cancel() }
}

// run runs the request in a transaction, unless another copy has run or runs.
func (rules *Rules) run(ctx context.Context, db DB, next http.Handler, r *keyedRequest) (_ *response, isBusy bool) {
	tx, err := db.begin(ctx)
	if err != nil {
		return failed(r.Request, err), false
	}
	ended := false
	defer func() { // also if the handler panics
		if !ended {
			tx.rollBack(ctx)
		}
	}()
	verdict, token, answer, err := rules.begin(ctx, tx, r)
	if err != nil {
		return failed(r.Request, err), false
	} else if answer != nil {
		return answer, verdict == "busy"
	}
	made := &response{header: make(http.Header)}
	next.ServeHTTP(made, r.inner(ctx, tx))
	made.end()
	if made.tooLarge {
		return invalid(r.Request, fmt.Errorf("the response has more than %d bytes, so it is not stored", maxResponse)), false
	} else if made.status >= 500 {
		return made, false
	}
	commits, expires := false, (*string)(nil)
	headers, _ := json.Marshal(made.header)
	if err := tx.query(ctx, complete, token, made.status, string(headers), made.body.Bytes()).Scan(&commits, &expires); err != nil {
		if sqlState(err) == "25P02" && made.status >= 400 { // a statement had failed, as the response says
			return made, false
		}
		return failed(r.Request, err), false
	} else if !commits {
		return made, false
	}
	ended = true
	if err := tx.commit(ctx); err != nil {
		return failed(r.Request, err), false
	}
	if expires != nil {
		made.header.Set("Idempotency-Expires", *expires)
	}
	return made, false
}

// inner returns the request for the handler.
func (r *keyedRequest) inner(ctx context.Context, tx *transaction) *http.Request {
	inner := r.WithContext(context.WithValue(ctx, txKey{}, tx.tx))
	inner.Body, inner.ContentLength = io.NopCloser(bytes.NewReader(r.body)), int64(len(r.body))
	inner.Header = r.Header.Clone()
	inner.Header.Set("Accept-Encoding", "identity") // the copies that get the stored response may accept another one
	return inner
}

// begin returns the token of a copy that runs, nil without a key, or the answer to one that does not.
func (rules *Rules) begin(ctx context.Context, tx *transaction, r *keyedRequest) (verdict string, token *string, _ *response, _ error) {
	header := func(name string) *string {
		if values := r.Header.Values(name); len(values) > 0 {
			all := text(strings.Join(values, ", "))
			return &all
		}
		return nil
	}
	var headers *string
	var status *int
	var content []byte
	keep := fmt.Sprintf("%d microseconds", rules.Keep.Microseconds())
	row := tx.query(ctx, begin, header("Idempotency-Key"), r.Method, text(r.URL.RequestURI()), r.fingerprint, r.scope, keep, !rules.Optional,
		header("Traceparent"), header("Tracestate"))
	var setting *string
	if err := row.Scan(&verdict, &token, &status, &headers, &content, &setting, &setting); err != nil || status == nil {
		return verdict, token, nil, err
	}
	answer := &response{header: make(http.Header), status: *status}
	answer.body.Write(content)
	var fields map[string]string
	err := json.Unmarshal([]byte(*headers), &fields)
	for name, value := range fields {
		answer.header.Set(name, value)
	}
	return verdict, nil, answer, err
}

// withoutBoundary returns the body without the boundary between the parts of a form.
func withoutBoundary(r *http.Request, body []byte) ([]byte, error) {
	kind, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(kind, "multipart/") || parameters["boundary"] == "" {
		return body, nil
	}
	var compared []byte
	for _, part := range bytes.Split(append([]byte("\r\n"), body...), []byte("\r\n--"+parameters["boundary"])) {
		compared = append(fmt.Appendf(compared, "%d:", len(part)), part...)
	}
	return compared, nil
}
