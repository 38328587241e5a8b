package errand

import (
	"errors"
	"fmt"
	"time"
)

// Config is how errands are sent, kept and answered. Asker and worker are every node, with the same values.
type Config struct {
	// Wait is how long an errand waits for its answer. Longer lets slow peers answer; a server whose estimator has died
	// or is cut off is left alone for as long, less margin.
	Wait time.Duration `toml:"wait"`
	// Queue is how long a job of a peer may wait for a fetcher here before it is given back. Longer makes use of busier
	// peers, and leaves less of wait for the download.
	Queue time.Duration `toml:"queue"`
	// Margin is kept free at the end of wait: a download for a peer is broken off that long before the peer stops
	// waiting. More leaves time for the answer, less for the download.
	Margin time.Duration `toml:"margin"`
	// Flush is the least time between two messages of answers to one peer. More saves messages, less decides sooner.
	// Downloads of a comparison are answered at once.
	Flush time.Duration `toml:"flush"`
	// Gather is how long asks and answers wait for others to share a message.
	Gather time.Duration `toml:"gather"`
	// AskFor is how long an ask that its peer has not acknowledged is sent again.
	AskFor time.Duration `toml:"ask_for"`
	// AnswerFor is how long an answer that its asker has not acknowledged is sent again.
	AnswerFor time.Duration `toml:"answer_for"`
	// CallTimeout bounds one call to a peer.
	CallTimeout time.Duration `toml:"call_timeout"`
	// Message is the number of errands or answers in one message.
	Message int `toml:"message"`
	// Waiting bounds the errands that wait for answers here. More need memory, about 1 KiB each.
	Waiting int `toml:"waiting"`
	// Jobs bounds the errands of peers that are here, from the ask to the acknowledged answer; further ones are refused.
	Jobs int `toml:"jobs"`
}

// Default gives the times of the 2009 method, and bounds that thirty peers do not reach.
func Default() Config {
	return Config{
		Wait: time.Minute, Queue: 20 * time.Second, Margin: 10 * time.Second, Flush: 10 * time.Second,
		Gather: 50 * time.Millisecond, AskFor: 15 * time.Second, AnswerFor: time.Minute, CallTimeout: 10 * time.Second,
		Message: 500, Waiting: 10_000, Jobs: 2_000,
	}
}

// maxMessage is what a message may hold whatever its sender's configuration says.
const maxMessage = 1000

// Validate reports every value that cannot be.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for _, d := range []struct {
		name       string
		value, min time.Duration
	}{
		{"wait", c.Wait, time.Second}, {"queue", c.Queue, time.Millisecond}, {"margin", c.Margin, 0}, {"flush", c.Flush, 0},
		{"gather", c.Gather, 0}, {"ask_for", c.AskFor, time.Millisecond}, {"answer_for", c.AnswerFor, time.Millisecond},
		{"call_timeout", c.CallTimeout, time.Millisecond},
	} {
		check(d.value >= d.min && d.value <= time.Hour, "%s: %v is not between %v and 1h", d.name, d.value, d.min)
	}
	check(c.AskFor+c.Queue+c.Margin < c.Wait, "wait: %v leaves no time for a download after ask_for %v, queue %v and margin %v",
		c.Wait, c.AskFor, c.Queue, c.Margin)
	check(c.Message >= 1 && c.Message <= maxMessage, "message: %d is not between 1 and %d", c.Message, maxMessage)
	check(c.Waiting >= 1 && c.Waiting <= 1_000_000, "waiting: %d is not between 1 and 1000000", c.Waiting)
	check(c.Jobs >= 1 && c.Jobs <= 1_000_000, "jobs: %d is not between 1 and 1000000", c.Jobs)
	return errors.Join(errs...)
}
