package peer

// Shelf is a room on disk of the outbox's own: ordered keys with values. It is safe for concurrent use. It does not keep
// what it is given, and what it gives to visit is valid until visit returns.
type Shelf interface {
	// Get returns nil for a key that is not there.
	Get(key []byte) ([]byte, error)
	// Put and Delete are durable when they return.
	Put(key, value []byte) error
	Delete(key []byte) error
	// Scan visits the keys with a prefix in order, until visit returns an error, which it returns.
	Scan(prefix []byte, visit func(key, value []byte) error) error
	// Batch makes all changes that fill asks for, or none; durable when it returns. The outbox asks for no more than 1 MiB
	// and some 2,000 keys at a time with the default configuration.
	Batch(fill func(set func(key, value []byte), del func(key []byte))) error
}
