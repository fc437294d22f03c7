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
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	begin = "SELECT token, status, headers::text, body FROM inbox.http_request_begin($1::text, $2::text, $3::text, $4::bytea," +
		" $5::text, $6::text::interval, $7::boolean)"
	complete = "SELECT commits, expires FROM inbox.http_request_complete($1::text, $2::int, $3::text::jsonb, $4::bytea)"
)

// Rules are the options of a middleware. The zero value requires a key for each POST and PATCH.
type Rules struct {
	// Scope returns the owner of the key, such as the authenticated tenant. Do not take it from a value that the client can
	// choose. If Scope returns an error, the request does not run.
	Scope    func(*http.Request) (string, error)
	Optional bool          // requests without a key run, too, each in a transaction
	Methods  []string      // nil: POST and PATCH
	Keep     time.Duration // until a key is forgotten; 0: 24 hours
	MaxBody  int64         // of a request; 0: 1 MiB
}

// Middleware returns a middleware that keeps the keys in the database. The user of the database needs the role inboxd_service.
func Middleware(db DB, rules Rules) func(http.Handler) http.Handler {
	if rules.Methods == nil {
		rules.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if rules.Scope == nil {
		rules.Scope = func(*http.Request) (string, error) { return "", nil }
	}
	rules.Keep = cmp.Or(rules.Keep, 24*time.Hour)
	rules.MaxBody = cmp.Or(rules.MaxBody, 1<<20)
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

// serve returns the response. The transaction has ended.
func (rules *Rules) serve(db DB, next http.Handler, w http.ResponseWriter, r *http.Request) *response {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, rules.MaxBody))
	if large := new(http.MaxBytesError); errors.As(err, &large) {
		return problem(http.StatusRequestEntityTooLarge, "request-too-large", fmt.Sprintf("a request with a key has at most %d bytes", rules.MaxBody))
	} else if err != nil {
		return problem(http.StatusBadRequest, "request-incomplete", "the body of the request ended early; send it again with the same key")
	}
	scope, err := rules.Scope(r)
	if err != nil {
		return invalid(r, err)
	}
	ctx := r.Context()
	tx, err := db.begin(ctx)
	if err != nil {
		return failed(r, err)
	}
	ended := false
	defer func() { // also if the handler panics
		if !ended {
			tx.rollBack(ctx)
		}
	}()
	token, answer, err := rules.begin(ctx, tx, r, body, scope)
	if err != nil {
		return failed(r, err)
	} else if answer != nil {
		return answer
	}
	made := &response{header: make(http.Header)}
	inner := r.WithContext(context.WithValue(ctx, txKey{}, tx.tx))
	inner.Body, inner.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	next.ServeHTTP(made, inner)
	made.end()
	if made.tooLarge {
		return invalid(r, fmt.Errorf("the response has more than %d bytes, so it is not stored", maxResponse))
	} else if made.status >= 500 {
		return made
	}
	commits, expires := false, (*string)(nil)
	headers, _ := json.Marshal(made.header)
	if err := tx.query(ctx, complete, token, made.status, string(headers), made.body.Bytes()).Scan(&commits, &expires); err != nil {
		if sqlState(err) == "25P02" && made.status >= 400 { // a statement had failed, as the response says
			return made
		}
		return failed(r, err)
	} else if !commits {
		return made
	}
	ended = true
	if err := tx.commit(ctx); err != nil {
		return failed(r, err)
	}
	if expires != nil {
		made.header.Set("Idempotency-Expires", *expires)
	}
	return made
}

// begin returns the token of a copy that runs, nil without a key, or the answer to one that does not.
func (rules *Rules) begin(ctx context.Context, tx *transaction, r *http.Request, body []byte, scope string) (token *string, _ *response, _ error) {
	var header, headers *string
	if values := r.Header.Values("Idempotency-Key"); len(values) > 0 {
		all := text(strings.Join(values, ", "))
		header = &all
	}
	var status *int
	var content []byte
	keep := fmt.Sprintf("%d microseconds", rules.Keep.Microseconds())
	row := tx.query(ctx, begin, header, r.Method, text(r.URL.RequestURI()), body, scope, keep, !rules.Optional)
	if err := row.Scan(&token, &status, &headers, &content); err != nil || status == nil {
		return token, nil, err
	}
	answer := &response{header: make(http.Header), status: *status}
	answer.body.Write(content)
	var fields map[string]string
	err := json.Unmarshal([]byte(*headers), &fields)
	for name, value := range fields {
		answer.header.Set(name, value)
	}
	return nil, answer, err
}
