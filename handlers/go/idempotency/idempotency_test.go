package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"inboxd/idempotency"
)

// tests/languages of the repository has tests with pgx, database/sql and PostgreSQL.

// A fakeTx gives the claims of a script, and records what is called.
type fakeTx struct {
	verdict string
	fail    map[string]error
	called  []string
	stored  []any
}

type fakeRow struct {
	values []any
	err    error
}

func (r fakeRow) Scan(dest ...any) error {
	for i, value := range r.values {
		if value != nil {
			reflect.ValueOf(dest[i]).Elem().Set(reflect.ValueOf(value))
		}
	}
	return r.err
}

func (tx *fakeTx) QueryRow(_ context.Context, statement string, arguments ...any) fakeRow {
	if strings.Contains(statement, "request_begin") {
		tx.called = append(tx.called, "begin")
		token, status, headers, retry, expires := "token", 201, `{"location":"/orders/17"}`, 0, int64(1_800_000_000)
		return fakeRow{[]any{tx.verdict, &token, &status, &headers, []byte("stored"), &retry, &expires}, tx.fail["begin"]}
	}
	tx.called, tx.stored = append(tx.called, "complete"), arguments
	return fakeRow{[]any{1}, tx.fail["complete"]}
}

func (tx *fakeTx) Commit(context.Context) error {
	tx.called = append(tx.called, "commit")
	return tx.fail["commit"]
}

func (tx *fakeTx) Rollback(ctx context.Context) error {
	tx.called = append(tx.called, "rollback")
	return ctx.Err()
}

type fakePool struct{ tx *fakeTx }

func (p fakePool) Begin(context.Context) (*fakeTx, error) {
	return p.tx, p.tx.fail["connect"]
}

func created(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Set-Cookie", "a=b")
	w.Header().Set("X-Tx", fmt.Sprintf("%T", idempotency.Tx[*fakeTx](r)))
	w.WriteHeader(http.StatusCreated)
	w.Header().Set("X-Late", "1")
	fmt.Fprintf(w, "made %s", body)
}

func post(tx *fakeTx, rules idempotency.Rules, handler http.HandlerFunc, keys ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/orders?a=b", strings.NewReader("17"))
	for _, key := range keys {
		r.Header.Add("Idempotency-Key", key)
	}
	w := httptest.NewRecorder()
	idempotency.Middleware(idempotency.PGX(fakePool{tx}), rules)(handler).ServeHTTP(w, r)
	return w
}

func expect(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTheFirstCopyRunsAndIsStored(t *testing.T) {
	tx := &fakeTx{verdict: "started"}
	w := post(tx, idempotency.Rules{}, created, "k")
	expect(t, w.Code, 201)
	expect(t, w.Body.String(), "made 17")
	expect(t, tx.called, []string{"begin", "complete", "commit"})
	expect(t, w.Header().Get("Idempotency-Expires"), "Fri, 15 Jan 2027 08:00:00 GMT")
	expect(t, w.Header().Get("Set-Cookie")+w.Header().Get("X-Late"), "a=b")
	expect(t, tx.stored[1:], []any{201, []byte("made 17"), `{"content-type":"text/plain; charset=utf-8","x-tx":"*idempotency_test.fakeTx"}`})
}

func TestOtherVerdictsDoNotRun(t *testing.T) {
	for verdict, want := range map[string]int{"replay": 201, "busy": 409, "mismatch": 422, "lost": 409} {
		tx := &fakeTx{verdict: verdict}
		w := post(tx, idempotency.Rules{}, func(http.ResponseWriter, *http.Request) { t.Error("it runs") }, "k")
		expect(t, w.Code, want)
		expect(t, tx.called, []string{"begin", "rollback"})
		expect(t, w.Header().Get("Idempotent-Replayed") == "true", verdict == "replay")
		if verdict == "replay" {
			expect(t, []string{w.Header().Get("Location"), w.Body.String()}, []string{"/orders/17", "stored"})
		} else {
			expect(t, []string{w.Header().Get("Retry-After"), w.Header().Get("Content-Type")}, []string{"1", "application/problem+json"})
		}
	}
}

func TestResponsesThatAreNotStored(t *testing.T) {
	for _, status := range []int{401, 403, 408, 409, 425, 429, 500, 503} {
		tx := &fakeTx{verdict: "started"}
		w := post(tx, idempotency.Rules{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }, "k")
		expect(t, w.Code, status)
		expect(t, tx.called, []string{"begin", "rollback"})
	}
}

func TestAPanicRollsBack(t *testing.T) {
	tx := &fakeTx{verdict: "started"}
	defer func() {
		expect(t, recover(), "bug")
		expect(t, tx.called, []string{"begin", "rollback"})
	}()
	post(tx, idempotency.Rules{}, func(http.ResponseWriter, *http.Request) { panic("bug") }, "k")
}

func TestIfTheDatabaseFailsTheClientTriesAgain(t *testing.T) {
	for failing, called := range map[string][]string{
		"connect": nil, "begin": {"begin", "rollback"}, "complete": {"begin", "complete", "rollback"}, "commit": {"begin", "complete", "commit"},
	} {
		tx := &fakeTx{verdict: "started", fail: map[string]error{failing: errors.New("unexpected EOF")}}
		w := post(tx, idempotency.Rules{}, created, "k")
		expect(t, []any{w.Code, w.Header().Get("Retry-After")}, []any{503, "1"})
		expect(t, tx.called, called)
	}
}

type sqlError string

func (e sqlError) Error() string    { return string(e) }
func (e sqlError) SQLState() string { return string(e) }

func TestAResponseThatCannotBeStoredIsAnErrorOfTheService(t *testing.T) {
	for _, state := range []sqlError{"IB010", "25P02", "42501"} {
		tx := &fakeTx{verdict: "started", fail: map[string]error{"complete": state}}
		w := post(tx, idempotency.Rules{}, created, "k")
		expect(t, []any{w.Code, w.Header().Get("Retry-After")}, []any{500, ""})
		expect(t, tx.called, []string{"begin", "complete", "rollback"})
	}
}

func TestADatabaseThatIsAwayIsNoErrorOfTheService(t *testing.T) {
	for _, state := range []sqlError{"57P01", "40001", "08006", "53300", "25006"} {
		tx := &fakeTx{verdict: "started", fail: map[string]error{"complete": state}}
		w := post(tx, idempotency.Rules{}, created, "k")
		expect(t, []any{w.Code, w.Header().Get("Retry-After")}, []any{503, "1"})
	}
}

func TestAResponseThatIsTooLargeIsNotStored(t *testing.T) {
	tx := &fakeTx{verdict: "started"}
	w := post(tx, idempotency.Rules{}, func(w http.ResponseWriter, _ *http.Request) {
		for range 1025 {
			_, _ = w.Write(make([]byte, 1024))
		}
	}, "k")
	expect(t, []any{w.Code, w.Body.Len() < 1000}, []any{500, true})
	expect(t, tx.called, []string{"begin", "rollback"})
}

func TestAnUnknownScopeDoesNotRun(t *testing.T) {
	tx := &fakeTx{}
	unknown := func(*http.Request) (string, error) { return "", errors.New("no tenant") }
	w := post(tx, idempotency.Rules{Scope: unknown}, created, "k")
	expect(t, []any{w.Code, tx.called}, []any{500, []string(nil)})
}

func TestKeys(t *testing.T) {
	long := strings.Repeat("a", 255)
	for _, key := range []string{"k", `"k"`, `"a b"`, `"a \"b\" \\"`, " k ", long, "a-b_c:d/e"} {
		expect(t, post(&fakeTx{verdict: "started"}, idempotency.Rules{}, created, key).Code, 201)
	}
	for _, keys := range [][]string{nil, {""}, {long + "a"}, {`"open`}, {`"a" "b"`}, {"a, b"}, {"ü"}, {"a", "b"}, {`""`}, {"a\x01"}} {
		tx := &fakeTx{}
		expect(t, post(tx, idempotency.Rules{}, created, keys...).Code, 400)
		expect(t, tx.called, []string(nil))
	}
}

func TestWithoutAKeyARequestMayRunInATransaction(t *testing.T) {
	tx := &fakeTx{}
	w := post(tx, idempotency.Rules{Optional: true}, created)
	expect(t, []any{w.Code, tx.called}, []any{201, []string{"complete", "commit"}})
	tx = &fakeTx{}
	post(tx, idempotency.Rules{Optional: true}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	expect(t, tx.called, []string{"rollback"})
}

func TestABodyThatIsTooLargeIsRefused(t *testing.T) {
	tx := &fakeTx{}
	expect(t, post(tx, idempotency.Rules{MaxBody: 1}, created, "k").Code, 413)
	expect(t, tx.called, []string(nil))
}

func TestABodyThatEndsEarlyIsRefused(t *testing.T) {
	tx := &fakeTx{}
	r := httptest.NewRequest(http.MethodPost, "/orders", iotest.ErrReader(io.ErrUnexpectedEOF))
	r.Header.Set("Idempotency-Key", "k")
	w := httptest.NewRecorder()
	idempotency.Middleware(idempotency.PGX(fakePool{tx}), idempotency.Rules{})(http.HandlerFunc(created)).ServeHTTP(w, r)
	expect(t, []any{w.Code, tx.called}, []any{400, []string(nil)})
}

func TestOtherMethodsPass(t *testing.T) {
	tx := &fakeTx{}
	w := post(tx, idempotency.Rules{Methods: []string{http.MethodPut}}, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "passed") })
	expect(t, []any{w.Body.String(), tx.called}, []any{"passed", []string(nil)})
}
