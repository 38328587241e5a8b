package placement

import (
	"errors"
	"fmt"
	"time"
)

// RemoteConfig is how pages are downloaded for other nodes. Every node has the same values.
type RemoteConfig struct {
	// Wait is how long a remote fetch waits for its answer. Longer lets slow peers answer; a server whose estimator has died
	// or is cut off is left alone for five sixths of it. What scales with it: an ask is repeated for a quarter, a call takes a
	// sixth at most, and a sixth at the end is left for the answer.
	Wait time.Duration `toml:"wait"`
	// Queue is how long a page for a peer may wait for a fetcher here before it is given back. Longer makes use of busier
	// peers, and leaves less of wait for the download.
	Queue time.Duration `toml:"queue"`
	// Jobs bounds the pages for peers that are here, from the ask to the acknowledged answer; further ones are refused.
	Jobs int `toml:"jobs"`
}

// DefaultRemote gives the times of the 2009 method, and a bound that thirty peers do not reach.
func DefaultRemote() RemoteConfig {
	return RemoteConfig{Wait: time.Minute, Queue: 20 * time.Second, Jobs: 2_000}
}

// askFor is how long an ask that its peer has not acknowledged is sent again.
func (c RemoteConfig) askFor() time.Duration { return c.Wait / 4 }

// callTimeout bounds one call to a peer.
func (c RemoteConfig) callTimeout() time.Duration { return c.Wait / 6 }

// margin is kept free at the end of Wait: a download for a peer is broken off that long before the peer stops waiting.
func (c RemoteConfig) margin() time.Duration { return c.Wait / 6 }

// maxMessage is what a message may hold.
const maxMessage = 1000

// Validate reports every value that cannot be.
func (c RemoteConfig) Validate() error {
	var errs []error
	if c.Wait < time.Second || c.Wait > time.Hour {
		errs = append(errs, fmt.Errorf("wait: %v is not between 1s and 1h", c.Wait))
	}
	if c.Queue < time.Millisecond || c.askFor()+c.margin()+c.Queue >= c.Wait {
		errs = append(errs, fmt.Errorf("queue: %v is not between 1ms and seven twelfths of wait, %v", c.Queue, c.Wait*7/12))
	}
	if c.Jobs < 1 || c.Jobs > 1_000_000 {
		errs = append(errs, fmt.Errorf("jobs: %d is not between 1 and 1000000", c.Jobs))
	}
	return errors.Join(errs...)
}
