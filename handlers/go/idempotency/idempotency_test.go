package idempotency_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"inboxd/idempotency"
)

// tests/languages of the repository has tests with pgx, database/sql and PostgreSQL.

// A fakeTx answers as the database does, and records what is called.
type fakeTx struct {
	answer   []any // to a copy that does not run: verdict, nil, status, headers, body
	busy     int   // so many looks find that another copy runs
	rollBack bool  // what the database says of the response
	fail     map[string]error
	called   []string
	begun    []any
	stored   []any
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
	if strings.Contains(statement, "http_request_begin") {
		tx.called, tx.begun = append(tx.called, "begin"), arguments
		if tx.busy > 0 {
			tx.busy--
			status, headers := 409, `{"retry-after":"1"}`
			return fakeRow{[]any{"busy", nil, &status, &headers, []byte("busy")}, nil}
		}
		if tx.answer != nil {
			return fakeRow{tx.answer, tx.fail["begin"]}
		}
		token := "token"
		return fakeRow{[]any{"started", &token}, tx.fail["begin"]}
	}
	tx.called, tx.stored = append(tx.called, "complete"), arguments
	expires := "Fri, 15 Jan 2027 08:00:00 GMT"
	if tx.rollBack {
		return fakeRow{[]any{false}, tx.fail["complete"]}
	}
	return fakeRow{[]any{true, &expires}, tx.fail["complete"]}
}

func (tx *fakeTx) Commit(ctx context.Context) error {
	tx.called = append(tx.called, "commit")
	return cmp.Or(tx.fail["commit"], ctx.Err())
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
	return postRequest(tx, rules, handler, httptest.NewRequest(http.MethodPost, "/orders?a=b", strings.NewReader("17")), keys...)
}

func postRequest(tx *fakeTx, rules idempotency.Rules, handler http.HandlerFunc, r *http.Request, keys ...string) *httptest.ResponseRecorder {
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

var noText *string

func text(of any) string {
	return *of.(*string)
}

func TestTheFirstCopyRunsAndIsStored(t *testing.T) {
	tx := &fakeTx{}
	w := post(tx, idempotency.Rules{Keep: time.Minute}, created, "k")
	expect(t, w.Code, 201)
	expect(t, w.Body.String(), "made 17")
	expect(t, tx.called, []string{"begin", "complete", "commit"})
	expect(t, w.Header().Get("Idempotency-Expires"), "Fri, 15 Jan 2027 08:00:00 GMT")
	expect(t, w.Header().Get("Set-Cookie")+w.Header().Get("X-Late"), "a=b")
	expect(t, text(tx.begun[0]), "k")
	expect(t, tx.begun[1:], []any{"POST", "/orders?a=b", []byte("17"), "", "60000000 microseconds", true, noText, noText})
	expect(t, text(tx.stored[0]), "token")
	headers := `{"Content-Type":["text/plain; charset=utf-8"],"Set-Cookie":["a=b"],"X-Tx":["*idempotency_test.fakeTx"]}`
	expect(t, tx.stored[1:], []any{201, headers, []byte("made 17")})
}

func TestACopyThatDoesNotRunGetsTheAnswerOfTheDatabase(t *testing.T) {
	status, headers := 201, `{"location":"/orders/17","idempotent-replayed":"true"}`
	tx := &fakeTx{answer: []any{"replay", nil, &status, &headers, []byte("stored")}}
	w := post(tx, idempotency.Rules{}, func(http.ResponseWriter, *http.Request) { t.Error("it runs") }, "a", "b")
	expect(t, text(tx.begun[0]), "a, b")
	expect(t, tx.called, []string{"begin", "rollback"})
	expect(t, []any{w.Code, w.Header().Get("Location"), w.Header().Get("Idempotent-Replayed"), w.Body.String()}, []any{201, "/orders/17", "true", "stored"})
}

func TestResponsesThatAreNotStored(t *testing.T) {
	for status, called := range map[int][]string{429: {"begin", "complete", "rollback"}, 500: {"begin", "rollback"}} {
		tx := &fakeTx{rollBack: true}
		w := post(tx, idempotency.Rules{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }, "k")
		expect(t, []any{w.Code, w.Header().Get("Idempotency-Expires")}, []any{status, ""})
		expect(t, tx.called, called)
	}
}

func TestAnErrorResponseAfterAFailedStatementIsSentAndNotStored(t *testing.T) {
	tx := &fakeTx{fail: map[string]error{"complete": sqlError("25P02")}}
	w := post(tx, idempotency.Rules{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusConflict) }, "k")
	expect(t, w.Code, 409)
	expect(t, tx.called, []string{"begin", "complete", "rollback"})
}

func TestAPanicRollsBack(t *testing.T) {
	tx := &fakeTx{}
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
		tx := &fakeTx{fail: map[string]error{failing: errors.New("unexpected EOF")}}
		w := post(tx, idempotency.Rules{}, created, "k")
		expect(t, []any{w.Code, w.Header().Get("Retry-After")}, []any{503, "1"})
		expect(t, tx.called, called)
	}
}

type sqlError string

func (e sqlError) Error() string    { return string(e) }
func (e sqlError) SQLState() string { return string(e) }

func TestAResponseThatCannotBeStoredIsAnErrorOfTheService(t *testing.T) {
	for _, state := range []sqlError{"IB010", "25P02", "42501", "55000"} {
		tx := &fakeTx{fail: map[string]error{"complete": state}}
		w := post(tx, idempotency.Rules{}, created, "k")
		expect(t, []any{w.Code, w.Header().Get("Retry-After")}, []any{500, ""})
		expect(t, tx.called, []string{"begin", "complete", "rollback"})
	}
}

func TestADatabaseThatIsAwayIsNoErrorOfTheService(t *testing.T) {
	for _, state := range []sqlError{"57P01", "40001", "08006", "53300", "25006", "55P03", "55006"} {
		tx := &fakeTx{fail: map[string]error{"complete": state}}
		w := post(tx, idempotency.Rules{}, created, "k")
		expect(t, []any{w.Code, w.Header().Get("Retry-After")}, []any{503, "1"})
	}
}

func TestAResponseThatIsTooLargeIsNotStored(t *testing.T) {
	tx := &fakeTx{}
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

func TestTextThatIsNotUTF8IsRead(t *testing.T) {
	tx := &fakeTx{}
	r := httptest.NewRequest(http.MethodPost, "/orders?a=b", nil)
	r.URL.RawQuery = "a=\xfc"
	r.Header.Set("Idempotency-Key", "\xfck")
	idempotency.Middleware(idempotency.PGX(fakePool{tx}), idempotency.Rules{})(http.HandlerFunc(created)).ServeHTTP(httptest.NewRecorder(), r)
	expect(t, []any{text(tx.begun[0]), tx.begun[2]}, []any{"ük", "/orders?a=ü"})
}

func TestWithoutAKeyTheDatabaseDecides(t *testing.T) {
	for _, optional := range []bool{false, true} {
		tx := &fakeTx{}
		post(tx, idempotency.Rules{Optional: optional}, created)
		expect(t, []any{tx.begun[0], tx.begun[6]}, []any{(*string)(nil), !optional})
	}
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

func TestTheTransactionOutlivesTheClient(t *testing.T) {
	tx := &fakeTx{}
	client, leave := context.WithCancel(context.Background())
	handler := func(w http.ResponseWriter, r *http.Request) {
		leave()
		expect(t, r.Context().Err(), nil)
		w.WriteHeader(http.StatusCreated)
	}
	r := httptest.NewRequest(http.MethodPost, "/orders", nil).WithContext(client)
	postRequest(tx, idempotency.Rules{}, handler, r, "k")
	expect(t, tx.called, []string{"begin", "complete", "commit"})
}

func TestARequestWhoseClientHasGoneDoesNotRunForever(t *testing.T) {
	tx := &fakeTx{}
	client, leave := context.WithCancel(context.Background())
	handler := func(w http.ResponseWriter, r *http.Request) {
		leave()
		<-r.Context().Done()
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	r := httptest.NewRequest(http.MethodPost, "/orders", nil).WithContext(client)
	postRequest(tx, idempotency.Rules{AbandonAfter: time.Millisecond}, handler, r, "k")
	expect(t, tx.called, []string{"begin", "rollback"})
}

func TestADeadlineOfAnOuterHandlerHolds(t *testing.T) {
	outer, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	r := httptest.NewRequest(http.MethodPost, "/orders", nil).WithContext(outer)
	postRequest(&fakeTx{}, idempotency.Rules{}, func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		expect(t, r.Context().Err(), context.DeadlineExceeded)
	}, r, "k")
}

func TestACopyWaitsAMomentForTheOneThatRuns(t *testing.T) {
	tx := &fakeTx{busy: 2}
	expect(t, post(tx, idempotency.Rules{}, created, "k").Code, 201)
	expect(t, tx.called, []string{"begin", "rollback", "begin", "rollback", "begin", "complete", "commit"})
}

func TestACopyWaitsNoLongerThanTheRuleSays(t *testing.T) {
	for wait, looks := range map[time.Duration]int{-1: 1, 25 * time.Millisecond: 3} {
		tx := &fakeTx{busy: 100}
		w := post(tx, idempotency.Rules{Wait: wait}, created, "k")
		expect(t, []any{w.Code, w.Header().Get("Retry-After"), len(tx.called)}, []any{409, "1", 2 * looks})
	}
}

func TestTheEventsOfARequestContinueItsTrace(t *testing.T) {
	tx := &fakeTx{}
	r := httptest.NewRequest(http.MethodPost, "/orders", nil)
	r.Header.Set("Traceparent", "00-aa-bb-01")
	r.Header.Set("Tracestate", "a=b")
	postRequest(tx, idempotency.Rules{}, created, r, "k")
	expect(t, []any{text(tx.begun[7]), text(tx.begun[8])}, []any{"00-aa-bb-01", "a=b"})
}

// form returns a POST of a form with a file. Each one has another boundary.
func form(content string) *http.Request {
	var body bytes.Buffer
	parts := multipart.NewWriter(&body)
	_ = parts.WriteField("title", "photo")
	file, _ := parts.CreateFormFile("file", "a.txt")
	_, _ = io.WriteString(file, content)
	_ = parts.Close()
	r := httptest.NewRequest(http.MethodPost, "/orders", &body)
	r.Header.Set("Content-Type", parts.FormDataContentType())
	return r
}

func TestTheBoundaryOfAFormIsNotCompared(t *testing.T) {
	tx := &fakeTx{}
	compared := func(content string) string {
		postRequest(tx, idempotency.Rules{}, func(_ http.ResponseWriter, r *http.Request) {
			expect(t, r.FormValue("title"), "photo")
		}, form(content), "k")
		return string(tx.begun[3].([]byte))
	}
	one := compared("one")
	expect(t, compared("one"), one)
	expect(t, compared("two") == one, false)
}

func TestAFingerprintOfTheServiceIsComparedInPlaceOfTheBody(t *testing.T) {
	tx := &fakeTx{}
	fingerprint := func(_ *http.Request, body []byte) ([]byte, error) { return append([]byte("order "), body...), nil }
	post(tx, idempotency.Rules{Fingerprint: fingerprint}, created, "k")
	expect(t, tx.begun[3], []byte("order 17"))
}

func TestABodyThatAnOuterHandlerHasReadIsNotCompared(t *testing.T) {
	for name, read := range map[string]func(r *http.Request){
		"with a length": func(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) },
		"as a form":     func(r *http.Request) { r.ContentLength = -1; _ = r.ParseMultipartForm(1 << 20) },
	} {
		tx := &fakeTx{}
		r := form("one")
		read(r)
		w := postRequest(tx, idempotency.Rules{}, created, r, "k")
		expect(t, []any{name, w.Code, tx.called}, []any{name, 415, []string(nil)})
	}
}

func TestAllCopiesCanReadTheResponse(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/orders", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	postRequest(&fakeTx{}, idempotency.Rules{}, func(_ http.ResponseWriter, r *http.Request) {
		expect(t, r.Header.Get("Accept-Encoding"), "identity")
	}, r, "k")
	expect(t, r.Header.Get("Accept-Encoding"), "gzip")
}
