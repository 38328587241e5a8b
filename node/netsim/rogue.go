package netsim

import (
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/memberlist"
)

// Rogue is a member of the gossip that speaks memberlist's protocol, but says what it likes, for tests of those that hear it.
type Rogue struct{ Meta, Ack, State []byte }

// NodeMeta and the methods after it implement memberlist.Delegate and memberlist.PingDelegate.
func (r Rogue) NodeMeta(int) []byte                                      { return r.Meta }
func (Rogue) NotifyMsg([]byte)                                           {}
func (Rogue) GetBroadcasts(int, int) [][]byte                            { return nil }
func (r Rogue) LocalState(bool) []byte                                   { return r.State }
func (Rogue) MergeRemoteState([]byte, bool)                              {}
func (r Rogue) AckPayload() []byte                                       { return r.Ack }
func (Rogue) NotifyPingComplete(*memberlist.Node, time.Duration, []byte) {}

// Join has it join the overlay with a label whose first node is at the first place. Without a secret it does not encrypt. leave ends it, and
// returns when its goroutines have ended, after a minute.
func (r Rogue) Join(name, label string, secret []byte, by memberlist.Transport) (leave func() error, err error) {
	c := memberlist.DefaultLANConfig()
	c.Name, c.Label, c.SecretKey, c.Transport = name, label, secret, by
	c.Delegate, c.Ping, c.LogOutput, c.EnableCompression = r, r, io.Discard, false
	list, err := memberlist.Create(c)
	if err != nil {
		return nil, fmt.Errorf("make rogue: %w", err)
	}
	_, _ = list.Join([]string{GossipAt(0)}) // it may be refused
	return func() error {
		err := list.Shutdown()
		time.Sleep(time.Minute)
		return err
	}, nil
}
