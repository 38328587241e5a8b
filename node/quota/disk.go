package quota

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"proxima/node/wire"
)

// What the node remembers, by its key. Each value begins with the version of the form.
//
//	book   a QuotaRequest: the epoch that was promised, and the book that was stored
//	mine   a byte, 1 where the last life ended in order, and the node's QuotaEntry
const (
	keyBook = "book"
	keyMine = "mine"
	form    = 1
)

var errForm = errors.New("it has another form")

// read reads both.
func (q *Shares) read() error {
	q.mine = &wire.QuotaEntry{}
	value, err := q.deps.Read(keyMine)
	if err != nil {
		return err
	}
	if len(value) > 0 {
		if len(value) < 2 || value[0] != form {
			return errForm
		}
		if err := proto.Unmarshal(value[2:], q.mine); err != nil {
			return fmt.Errorf("%w: %w", errForm, err)
		}
		if value[1] == 0 { // it crashed: it may have asked for all that it was given
			q.mine.Done = max(q.mine.GetDone(), q.mine.GetGranted()-q.mine.GetGivenBack())
		}
	}
	q.earlier = copyOf(q.mine)
	if value, err = q.deps.Read(keyBook); err != nil || len(value) == 0 {
		return err
	}
	stored := &wire.QuotaRequest{}
	if value[0] != form {
		return errForm
	}
	if err := proto.Unmarshal(value[1:], stored); err != nil {
		return fmt.Errorf("%w: %w", errForm, err)
	}
	q.promised = stored.GetEpoch()
	if stored.GetBook() != nil {
		q.book = stored.GetBook()
	}
	return nil
}

// keepMine writes what this node has. In order says that it asks for nothing more.
func (q *Shares) keepMine(ctx context.Context, inOrder bool) error {
	value := []byte{form, 0}
	if inOrder {
		value[1] = 1
	}
	value, err := proto.MarshalOptions{}.MarshalAppend(value, q.entry())
	if err == nil {
		err = q.deps.Keep(ctx, keyMine, value)
	}
	if err != nil {
		return fmt.Errorf("keep quota: %w", err)
	}
	return nil
}

// keepBook writes what was promised and stored.
func (q *Shares) keepBook(ctx context.Context) error {
	q.mu.Lock()
	stored := &wire.QuotaRequest{Epoch: q.promised, Book: q.book}
	q.mu.Unlock()
	value, err := proto.MarshalOptions{}.MarshalAppend([]byte{form}, stored)
	if err == nil {
		err = q.deps.Keep(ctx, keyBook, value)
	}
	if err != nil {
		return fmt.Errorf("keep book of quotas: %w", err)
	}
	return nil
}
