package assign

import (
	"fmt"
	"slices"
)

// The values of ProbeConfig.By.
const (
	// ProbeConnect compares connect times, as a ping does.
	ProbeConnect = "connect"
	// ProbeTotal compares whole download times, as a timed GET does.
	ProbeTotal = "total"
)

// probe is brute force (O. Papapetrou: Location Aware Web-Crawling with the Use of Migrating Crawlers, 2003, section 5.3): every
// node probes every server, the fastest gets it. With a threshold nodes probe one after another until one is fast enough
// (5.3.1), in an order drawn for each server.
type probe struct {
	cfg ProbeConfig
	ids []string
}

func newProbe(cfg ProbeConfig, b Batch, v View) *prober {
	return newProber(Probe, &probe{cfg: cfg}, cfg.By == ProbeTotal, b, v)
}

func (p *probe) join(nodes []Node, _ []*probed) { p.ids = ids(nodes) }

func (p *probe) step(s *probed) (string, *Choice) {
	order := RendezvousOrder(s.Addr.String(), p.ids, len(p.ids))
	for _, id := range order {
		if s.times[id] > 0 && s.times[id] <= p.cfg.ThresholdMs {
			c := s.fastestOf([]string{id}, fmt.Sprintf("first probe within %v ms", p.cfg.ThresholdMs))
			return "", &c
		}
	}
	if i := slices.IndexFunc(order, func(id string) bool { return s.times[id] == 0 }); i >= 0 {
		return order[i], nil
	}
	c := s.fastestOf(order, "fastest probe of all nodes")
	return "", &c
}
