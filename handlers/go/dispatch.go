package inboxd

import (
	"errors"
	"sync"
)

// A job is a delivery and the function for it.
type job struct {
	*Delivery
	*route
}

// accept starts the work on a message.
func (s *session) accept(d *Delivery) {
	r := s.route(d)
	switch {
	case r == nil:
	case r.batch != nil:
		s.start(func() { s.runBatch([]job{{d, r}}) })
	default:
		s.start(func() { s.process(job{d, r}) })
	}
}

// acceptBatch starts the work on the messages of a batch.
func (s *session) acceptBatch(deliveries []*Delivery) {
	jobs := make([]job, 0, len(deliveries))
	for _, d := range deliveries {
		if r := s.route(d); r != nil {
			jobs = append(jobs, job{d, r})
		}
	}
	if s.h.options.ordered {
		s.start(func() { s.runInOrder(jobs) })
		return
	}
	// Each message, or each batch for a function, for itself.
	batches := make(map[*route][]job)
	for _, j := range jobs {
		if j.batch != nil {
			batches[j.route] = append(batches[j.route], j)
		} else {
			s.start(func() { s.process(j) })
		}
	}
	for _, together := range batches {
		s.start(func() { s.runBatch(together) })
	}
}

func (s *session) start(work func()) {
	s.h.work.Add(1)
	go func() {
		defer s.h.work.Done()
		work()
	}()
}

// route returns the function for the message. Without one, the message waits for a version of the handler that has one.
func (s *session) route(d *Delivery) *route {
	r := s.h.routes.find(d.Event.Topic, d.Event.Type)
	if r == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.answer(d, noFunction)
	}
	return r
}

// process calls the function for one message. It reports whether the messages behind it may be processed.
func (s *session) process(j job) (goesOn bool) {
	d := j.Delivery
	if !s.begin(d) {
		return false
	}
	guarded(func() error { return j.function(d.ctx, d) }, func(err error) {
		a := d.answer(s.judge(d, err))
		s.settle(d, a)
		goesOn = a.finished && d.ctx.Err() == nil
		d.cancel(nil)
	})
	return goesOn
}

// guarded calls the function, and then the other one with its error. A panic is an error, and so is runtime.Goexit, after which only
// deferred functions run: each message gets an answer.
func guarded(f func() error, then func(err error)) {
	var err error = errExited
	defer func() {
		if value := recover(); value != nil {
			err = newPanicError(value)
		}
		then(err)
	}()
	err = f()
}

// judge returns the error that counts, and logs it. OnError may have replaced it.
func (s *session) judge(d *Delivery, err error) error {
	if err == nil {
		return nil
	}
	if replaced := s.onError(d, err); replaced != nil {
		err = replaced
	}
	if d.ctx.Err() == nil {
		s.report(d, err)
	}
	return err
}

// onError calls OnError, in a goroutine of its own because it may end it. If it fails, the error of the function holds.
func (s *session) onError(d *Delivery, err error) (replaced error) {
	ended := make(chan struct{})
	go guarded(func() error { replaced = s.h.options.onError(d, err); return nil }, func(failure error) {
		if failure != nil {
			s.h.options.logger.Error("OnError failed", "delivery", d.String(), "error", failure)
		}
		close(ended)
	})
	<-ended
	return replaced
}

// report logs a failure that is not a verdict.
func (s *session) report(d *Delivery, err error) {
	var v *Verdict
	var panicked *panicError
	log := s.h.options.logger
	switch {
	case isClaimLost(err):
	case errors.As(err, &v) && v.code != codeAway && !isAway(err):
	case errors.As(err, &v), isAway(err):
		log.Warn("the message waits for the database", "delivery", d.String(), "error", err)
	case errors.As(err, &panicked):
		log.Error("the function panicked", "delivery", d.String(), "error", err, "stack", string(panicked.stack))
	default:
		log.Error("the function failed", "delivery", d.String(), "error", err)
	}
}

// Ordered batches

// runInOrder processes the messages of a lane one after the other, until one is not finished, and lanes at the same time. With
// functions for batches: messages that follow each other and have the same function at a time.
func (s *session) runInOrder(jobs []job) {
	held := make(map[lane]bool)
	rest := runsOf(jobs)
	defer func() { // a function for batches may have ended the goroutine
		for _, run := range rest {
			for _, j := range run {
				s.settle(j.Delivery, skippedAnswer)
			}
		}
	}()
	for len(rest) > 0 {
		run := rest[0]
		rest = rest[1:]
		ready := make([]job, 0, len(run))
		for _, j := range run {
			if held[j.lane(s.ordering)] {
				s.settle(j.Delivery, skippedAnswer)
			} else {
				ready = append(ready, j)
			}
		}
		var unfinished []lane
		if run[0].batch != nil {
			unfinished = s.runBatch(ready)
		} else {
			unfinished = s.runLanes(ready)
		}
		for _, its := range unfinished {
			held[its] = true
		}
	}
}

// runsOf returns the jobs that follow each other and have the same function for batches, or functions for single messages.
func runsOf(jobs []job) [][]job {
	var runs [][]job
	for i, j := range jobs {
		last := len(runs) - 1
		if i > 0 && (j.route == jobs[i-1].route || j.batch == nil && jobs[i-1].batch == nil) {
			runs[last] = append(runs[last], j)
		} else {
			runs = append(runs, []job{j})
		}
	}
	return runs
}

// runLanes returns the lanes that have an unfinished message.
func (s *session) runLanes(jobs []job) []lane {
	var (
		mu         sync.Mutex
		unfinished []lane
		running    sync.WaitGroup
	)
	routes := make(map[*Delivery]*route, len(jobs))
	deliveries := make([]*Delivery, len(jobs))
	for i, j := range jobs {
		routes[j.Delivery], deliveries[i] = j.route, j.Delivery
	}
	for _, together := range lanes(deliveries, s.ordering) {
		running.Add(1)
		go func() {
			defer running.Done()
			goesOn, rest := true, together
			defer func() { // a function may have ended the goroutine
				for _, d := range rest {
					s.settle(d, skippedAnswer)
				}
				if !goesOn {
					mu.Lock()
					defer mu.Unlock()
					unfinished = append(unfinished, together[0].lane(s.ordering))
				}
			}()
			for goesOn && len(rest) > 0 {
				d := rest[0]
				goesOn, rest = false, rest[1:]
				goesOn = s.process(job{d, routes[d]})
			}
		}()
	}
	running.Wait()
	return unfinished
}

// Functions for batches

// runBatch calls a function with all of these messages. It returns the lanes that have an unfinished one.
func (s *session) runBatch(jobs []job) (unfinished []lane) {
	ordering := "none"
	if s.h.options.ordered {
		ordering = s.ordering
	}
	var begun []*Delivery
	for _, j := range jobs {
		if s.begin(j.Delivery) {
			begun = append(begun, j.Delivery)
		}
	}
	if len(begun) == 0 {
		return nil
	}
	ctx, release := withContext(s.base, begun)
	guarded(func() error { return jobs[0].batch(ctx, &Batch{Deliveries: begun, ordering: ordering}) }, func(err error) {
		release()
		unfinished = s.settleBatch(begun, err, ordering)
	})
	return unfinished
}

// settleBatch answers each message by its own verdict, or by the error of the function.
func (s *session) settleBatch(begun []*Delivery, err error, ordering string) []lane {
	claim, isLost := lostOf(err)
	if !isLost {
		err = s.judge(begun[0], err)
	}
	var unfinished []lane
	held := make(map[lane]bool)
	for _, d := range begun {
		its := d.lane(ordering)
		var a answer
		switch {
		case held[its]:
			a = skippedAnswer
		case d.decided:
			a = d.answer(s.judge(d, d.verdict))
		case isLost && d.Claim != claim: // the transaction has rolled back, but this message is not lost
			a = skippedAnswer
		default:
			a = d.answer(err)
		}
		s.settle(d, a)
		if !a.finished && !held[its] {
			held[its] = true
			unfinished = append(unfinished, its)
		}
		d.cancel(nil)
	}
	return unfinished
}
