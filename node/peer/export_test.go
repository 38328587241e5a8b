package peer

import "errors"

// Queues is the number of peers that links wait for.
func (o *Outbox) Queues() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queues)
}

// InMemory is the number of links of a peer that the outbox has a list of in memory.
func (o *Outbox) InMemory(peer string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if q := o.queues[peer]; q != nil {
		return q.links
	}
	return 0
}

// Kind says of which kind an error of a call is, "" for none.
func Kind(err error) string {
	var e *callError
	if errors.As(err, &e) {
		return e.kind
	}
	return ""
}
