package relay

import (
	"net"
	"sync"
)

// Listener returns a listener for what l accepts and for the calls of peers carried to this node.
func (r *Relay) Listener(l net.Listener) net.Listener {
	return &merged{Listener: l, relay: r, got: make(chan got), quit: make(chan struct{})}
}

// got is the result of one Accept.
type got struct {
	conn net.Conn
	err  error
}

type merged struct {
	net.Listener
	relay       *Relay
	got         chan got
	quit        chan struct{}
	begin, once sync.Once
	work        sync.WaitGroup
}

func (m *merged) Accept() (net.Conn, error) {
	m.begin.Do(func() { m.work.Go(m.listen) })
	select {
	case g := <-m.got:
		return g.conn, g.err
	case conn := <-m.relay.calls:
		return conn, nil
	case <-m.quit:
		return nil, net.ErrClosed
	}
}

func (m *merged) listen() {
	for {
		conn, err := m.Listener.Accept()
		select {
		case m.got <- got{conn, err}:
		case <-m.quit:
			if conn != nil {
				conn.Close() //nolint:errcheck // the listener has been closed
			}
			return
		}
	}
}

func (m *merged) Close() (err error) {
	m.once.Do(func() {
		m.begin.Do(func() {}) // later calls of Accept start nothing
		close(m.quit)
		err = m.Listener.Close()
		m.work.Wait()
	})
	return err
}
