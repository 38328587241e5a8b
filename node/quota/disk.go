package quota

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"proxima/node/wire"
)

// The node keeps two values. Each begins with the version of its form:
//
//	book   a QuotaRequest with the epoch last promised and the book last stored
//	mine   a byte that is 1 if the last life ended in order, and the node's QuotaEntry
const (
	keyBook = "book"
	keyMine = "mine"
	form    = 1
)

// ErrForm means that what Deps.Read returned is not what Deps.Keep was given.
var ErrForm = errors.New("it is damaged or of another version")

// read reads both values.
func (q *Shares) read() error {
	mine, err := q.deps.Read(keyMine)
	if err != nil {
		return err
	}
	q.mine = &wire.QuotaEntry{}
	if len(mine) > 0 {
		if err := parse(mine, 2, q.mine); err != nil {
			return fmt.Errorf("%s: %w", keyMine, err)
		}
		if q.crashed = mine[1] != 1; q.crashed { // it may have used all that was granted to it
			q.mine.Done = max(q.mine.GetDone(), q.mine.GetGranted()-q.mine.GetGivenBack())
		}
	}
	q.earlier = proto.CloneOf(q.mine)
	book, err := q.deps.Read(keyBook)
	if err != nil || len(book) == 0 {
		return err
	}
	stored := &wire.QuotaRequest{}
	if err := parse(book, 1, stored); err != nil {
		return fmt.Errorf("%s: %w", keyBook, err)
	}
	q.promised = stored.GetEpoch()
	if stored.GetBook() != nil {
		q.book = stored.GetBook()
	}
	return nil
}

// parse parses a value behind a head of so many bytes, whose first is the version of the form.
func parse(value []byte, head int, m proto.Message) error {
	if len(value) < head || value[0] != form {
		return ErrForm
	}
	if err := proto.Unmarshal(value[head:], m); err != nil {
		return fmt.Errorf("%w: %w", ErrForm, err)
	}
	return nil
}

// keepMine writes this node's entry. With inOrder the node promises not to use any more of its grant.
func (q *Shares) keepMine(inOrder bool) error {
	head := []byte{form, 0}
	if inOrder {
		head[1] = 1
	}
	return q.keep(keyMine, head, q.entry())
}

// keepBook writes what was promised and stored.
func (q *Shares) keepBook() error {
	q.mu.Lock()
	stored := &wire.QuotaRequest{Epoch: q.promised, Book: q.book}
	q.mu.Unlock()
	return q.keep(keyBook, []byte{form}, stored)
}

func (q *Shares) keep(key string, head []byte, m proto.Message) error {
	value, err := proto.MarshalOptions{}.MarshalAppend(head, m)
	if err == nil {
		err = q.deps.Keep(key, value)
	}
	if err != nil {
		err = fmt.Errorf("keep %s of quota: %w", key, err)
	}
	if was := q.failing.Swap(err != nil); err != nil && !was {
		q.deps.Warn(err)
	}
	return err
}
