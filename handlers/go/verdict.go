package inboxd

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

const (
	reasonMax = 4096
	codeMax   = 64
	resultMax = 1 << 20 // inboxd stores no longer one
	eventsMax = 8 << 20

	awayDelay        = time.Second
	codeAway         = "DATABASE_AWAY"
	codeError        = "HANDLER_ERROR"
	codePanic        = "PANIC"
	sqlClaimLost     = "IB001"
	sqlNoTransaction = "25P01"
	noDelay          = time.Duration(-1)
	noFunctionFor    = 5 * time.Second
)

// Backoff as the delay of [Retry] leaves the delay to inboxd, as every other error does.
const Backoff = noDelay

// A Verdict is an error that says what happens to the message. A function returns it, also wrapped in other errors.
// [Retry], [Dead], [Snooze] and [Skip] make one.
type Verdict struct {
	status string
	delay  time.Duration
	code   string
	reason error
}

// Retry says that the attempt failed. The message comes again after the delay. The reason is for operators.
func Retry(delay time.Duration, reason error) *Verdict {
	return &Verdict{status: "retry", delay: max(delay, noDelay), reason: reason}
}

// Dead says that the message can never be processed. It does not come again unless an operator replays it.
func Dead(reason error) *Verdict {
	return &Verdict{status: "dead", delay: noDelay, reason: reason}
}

// Snooze says that it is too early for the message. It comes again after the delay, 100 ms at least, and no attempt is spent. The
// reason may be nil.
func Snooze(delay time.Duration, reason error) *Verdict {
	return &Verdict{status: "snooze", delay: max(delay, 0), reason: reason}
}

// Skip says that the function did not try the message. It comes again, and nothing is counted.
func Skip() *Verdict {
	return &Verdict{status: "skipped", delay: noDelay}
}

// WithCode returns the verdict with a code, by which operators find and replay messages of one kind: 64 bytes at most.
func (v *Verdict) WithCode(code string) *Verdict {
	with := *v
	with.code = code
	return &with
}

func (v *Verdict) Error() string {
	if v.reason == nil {
		return v.status
	}
	return v.reason.Error()
}

// Unwrap returns the reason.
func (v *Verdict) Unwrap() error {
	return v.reason
}

// A CancelError is the cause of a context that was cancelled because inboxd does not wait for an answer any more:
// [context.Cause] returns it.
type CancelError struct {
	// Reason is timeout, lease_lost, shutdown or connection_lost.
	Reason string
}

func (e *CancelError) Error() string {
	return "inboxd: the delivery was cancelled: " + e.Reason
}

// A ClaimLostError says that the message belongs to another delivery by now (SQLSTATE IB001). Return it, so that the transaction
// rolls back.
type ClaimLostError struct {
	Claim string // the one that is lost; perhaps one of a batch
	Err   error
}

func (e *ClaimLostError) Error() string {
	return e.Err.Error()
}

// Unwrap returns the error of the driver.
func (e *ClaimLostError) Unwrap() error {
	return e.Err
}

// A panicError is what a function for messages panicked with.
type panicError struct {
	value any
	place string // file and line
	stack []byte
}

func (e *panicError) Error() string {
	return fmt.Sprintf("panic: %v%s", e.value, e.place)
}

// errExited is the error of a function that never returned.
var errExited = &panicError{value: "the function ended its goroutine: runtime.Goexit, or FailNow of a test"}

// newPanicError is for the function that recovers.
func newPanicError(value any) *panicError {
	e := &panicError{value: value, stack: debug.Stack()}
	var callers [32]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers[:])])
	panicked := false
	for frame, more := frames.Next(); ; frame, more = frames.Next() {
		inRuntime := strings.HasPrefix(frame.Function, "runtime.")
		if panicked && !inRuntime {
			e.place = fmt.Sprintf(" (%s:%d)", filepath.Base(frame.File), frame.Line)
			return e
		}
		panicked = panicked || frame.Function == "runtime.gopanic"
		if !more {
			return e
		}
	}
}

// An answer has the members of an answer as JSON. Its zero value answers nothing.
type answer struct {
	members string
	// finished: the later messages of the key may be processed.
	finished bool
	// short replaces the answer where the line would be too long.
	short *answer
}

var (
	doneAnswer    = answer{members: `"status":"done"`, finished: true}
	settledAnswer = answer{members: `"status":"settled"`, finished: true}
	skippedAnswer = answer{members: `"status":"skipped"`}
	// The claim is lost, so the answer does not matter. This one makes inboxd look at the row at once.
	lostAnswer    = answer{members: settledAnswer.members}
	withoutResult = answer{members: `"status":"done","result":` + note("the answer of the batch is too long"), finished: true}
	noFunction    = errorAnswer(Snooze(noFunctionFor, errors.New("this version of the handler has no function for the type")).
			WithCode("NO_FUNCTION"))
)

// note replaces a result that cannot be stored. The verdict stays, because the work is done.
func note(why string) string {
	return `{"inboxd":` + string(quote("result not stored: "+why)) + `}`
}

// done returns the answer for a message that is processed.
func done(result, events []byte) answer {
	if result == nil && events == nil {
		return doneAnswer
	}
	members := doneAnswer.members
	short := &withoutResult
	if result != nil {
		members += `,"result":` + string(result)
	}
	if events != nil {
		members += `,"emit":[` + string(events) + `]`
		short = &skippedAnswer // Without its events the message is not done. It comes again, perhaps in a smaller batch.
	}
	return answer{members: members, finished: true, short: short}
}

// errorAnswer returns the answer for an error: a verdict, a failure that the message did not cause, or a retry.
func errorAnswer(err error) answer {
	if isClaimLost(err) {
		return lostAnswer
	}
	v := verdictOf(err)
	text := err.Error()
	if v == err && v.reason == nil { //nolint:errorlint // the verdict itself, not a wrapped one
		text = ""
	}
	members := `"status":"` + v.status + `"`
	if v.delay >= 0 {
		members += fmt.Sprintf(`,"delay_ms":%d`, v.delay.Milliseconds())
	}
	if text != "" {
		members += `,"reason":` + string(quote(cut(text, reasonMax)))
	}
	if v.code != "" {
		members += `,"code":` + string(quote(cut(v.code, codeMax)))
	}
	return answer{members: members, finished: v.status == "dead"}
}

// verdictOf returns the verdict in the error, or the one that the error amounts to.
func verdictOf(err error) *Verdict {
	var v *Verdict
	if errors.As(err, &v) {
		return v
	}
	if isAway(err) {
		return away(err)
	}
	return Retry(Backoff, err).WithCode(codeOf(err))
}

// The SQLSTATEs that a message has not caused: connection, standby, deadlock, no resources, a lock of others, shutdown.
var awayStates = regexp.MustCompile(`^(08|25006|40|53|55006|55P03|57P)`)

// away is the verdict for a failure of the database: it spends no attempt.
func away(err error) *Verdict {
	code := sqlState(err)
	if code == "" {
		code = codeAway
	}
	return Snooze(awayDelay, err).WithCode(code)
}

func isAway(err error) bool {
	return awayStates.MatchString(sqlState(err))
}

func isClaimLost(err error) bool {
	var lost *ClaimLostError
	return errors.As(err, &lost) || sqlState(err) == sqlClaimLost
}

// sqlState returns the SQLSTATE of an error of PostgreSQL, by the method that the errors of pgx and of pq have.
func sqlState(err error) string {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return state.SQLState()
	}
	return ""
}

func codeOf(err error) string {
	if state := sqlState(err); state != "" {
		return state
	}
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		return coded.Code()
	}
	var panicked *panicError
	if errors.As(err, &panicked) {
		return codePanic
	}
	return codeError
}

// cut shortens the text between two characters.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

// resultJSON returns the result as JSON on one line.
func resultJSON(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		return []byte(note(err.Error()))
	}
	if len(text) > resultMax {
		return []byte(note(fmt.Sprintf("%d bytes", len(text))))
	}
	return text
}
