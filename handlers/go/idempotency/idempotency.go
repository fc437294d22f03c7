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
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	begin = "SELECT verdict, token, status, headers::text, body, ceil(extract(epoch FROM retry_after))::int," +
		" extract(epoch FROM expires_at)::bigint FROM inbox.request_begin($1::text, $2::bytea, $3::text, $4::text, keep => $5::text::interval)"
	// Fails if an earlier statement of the transaction failed and the handler hid the error. Otherwise the COMMIT would silently roll back.
	alive    = "SELECT 1"
	complete = "SELECT 1 FROM inbox.request_complete($1::text, $2::int, $3::bytea, $4::text::jsonb)"
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
	key, refusal := rules.keyOf(r.Header.Values("Idempotency-Key"))
	if refusal != nil {
		return refusal
	}
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
	var found claim
	if key != "" {
		if found, err = rules.claim(ctx, tx, key, scope, r, body); err != nil {
			return failed(r, err)
		} else if found.verdict != "started" {
			return found.response()
		}
	}
	made := &response{header: make(http.Header)}
	inner := r.WithContext(context.WithValue(ctx, txKey{}, tx.tx))
	inner.Body, inner.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	next.ServeHTTP(made, inner)
	made.end()
	if made.tooLarge {
		return invalid(r, fmt.Errorf("the response has more than %d bytes, so it is not stored", maxResponse))
	} else if made.status >= 500 || key != "" && slices.Contains(notStored, made.status) {
		return made
	}
	statement, arguments := alive, []any(nil)
	if key != "" {
		statement, arguments = complete, []any{found.token, made.status, made.body.Bytes(), made.stored()}
	}
	var one int
	if err := tx.query(ctx, statement, arguments...).Scan(&one); err != nil {
		return failed(r, err)
	}
	if key != "" {
		made.header.Set("Idempotency-Expires", found.expiry())
	}
	ended = true
	if err := tx.commit(ctx); err != nil {
		return failed(r, err)
	}
	return made
}

// claim says whose turn it is.
func (rules *Rules) claim(ctx context.Context, tx *transaction, key, scope string, r *http.Request, body []byte) (found claim, err error) {
	digest := sha256.Sum256(append([]byte(r.Method+" "+r.URL.RequestURI()+"\n"), body...))
	operation := r.Method + " " + r.URL.EscapedPath()
	keep := fmt.Sprintf("%d microseconds", rules.Keep.Microseconds())
	row := tx.query(ctx, begin, key, digest[:], scope, operation[:min(len(operation), 128)], keep)
	return found, row.Scan(&found.verdict, &found.token, &found.status, &found.headers, &found.body, &found.retryAfter, &found.expires)
}

var (
	quotedKey = regexp.MustCompile(`^"(?:[ !#-\[\]-~]|\\["\\])*"$`)
	bareKey   = regexp.MustCompile(`^[!#-+\--~]+$`)
	unescape  = strings.NewReplacer(`\"`, `"`, `\\`, `\`)
)

// keyOf reads the header: a string of RFC 8941, or a bare value, as most clients send it.
func (rules *Rules) keyOf(values []string) (string, *response) {
	if len(values) == 0 && rules.Optional {
		return "", nil
	}
	kind, key := "key-missing", ""
	if len(values) > 0 {
		kind = "key-invalid"
		if text := strings.TrimSpace(values[0]); quotedKey.MatchString(text) {
			key = unescape.Replace(text[1 : len(text)-1])
		} else if bareKey.MatchString(text) {
			key = text
		}
	}
	if len(values) != 1 || key == "" || len(key) > 255 {
		return "", problem(http.StatusBadRequest, kind, "send the header Idempotency-Key once, with a text of 1 to 255 printable characters")
	}
	return key, nil
}
