package node

import "time"

// Hasten divides the times of the overlay, those of the defaults, by a number: member.faster of a file. They stay in proportion, but for what does
// not depend on patience: members are probed once a second however fast the rest is.
func (c *Config) Hasten(by float64) {
	shorter := func(least time.Duration, times ...*time.Duration) {
		for _, t := range times {
			*t = max(min(least, *t), time.Duration(float64(*t)/by).Round(time.Millisecond))
		}
	}
	m, o, l := &c.Member, &c.Ownership, &c.Lease
	m.Faster = by
	shorter(time.Second, &m.SettleAfter, &m.ForgetAfter, &m.MajorityWindow, &m.Redial, &m.RedialMax)
	shorter(2*time.Second, &m.AnnounceEvery)
	shorter(100*time.Millisecond, &o.RenewEvery, &o.FenceAfter, &o.TakeAfter, &o.Collect)
	shorter(50*time.Millisecond, &o.ReplicateEvery)
	shorter(3*time.Second, &m.HearWithin)
	shorter(m.HearWithin+time.Second, &l.Skew)
	shorter(l.Skew+time.Second, &l.Time)
	shorter(time.Second, &l.Founding, &c.Remote.Wait)
	shorter(50*time.Millisecond, &c.Peer.OutboxWait, &c.Peer.CopyAfter) // replicas take a page for done when its links are answered
	shorter(time.Second, &c.Peer.OutboxBackoff, &c.Termination.RoundEvery)
}
