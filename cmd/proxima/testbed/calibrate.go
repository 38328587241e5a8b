package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/cmd/proxima/testbed/sites"
)

// calibrations is the number of pages that an ordinary client downloads from each node's address.
const calibrations = 8

// calibrate downloads some pages from each node's address with an ordinary HTTP client, on fresh connections and without load. It returns
// the ratios of the measured times to those of the model of the truth. They say how exact the model is. Each server is asked for one page
// at a time.
func (r *run) calibrate(ctx context.Context) (ratios []float64, err error) {
	var mu sync.Mutex
	for step := range min(calibrations, len(r.plan.Servers)) {
		var g errgroup.Group
		for i := range min(len(r.plan.Nodes), len(r.plan.Servers)) {
			k := (i + step*(len(r.plan.Nodes)+1)) % len(r.plan.Servers) // the servers of one step differ
			samples := r.platform.urls(k)
			if len(samples) == 0 {
				continue
			}
			g.Go(func() error {
				took, bytes, err := r.download(ctx, i, k, samples[(i+step)%len(samples)])
				if err != nil {
					return fmt.Errorf("calibrate from %s: %w", r.plan.Nodes[i].Name, err)
				}
				model := r.world.DownloadMs(i, k, bytes, r.started)
				mu.Lock()
				defer mu.Unlock()
				ratios = append(ratios, inMs(took)/model)
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
	}
	slices.Sort(ratios)
	return ratios, nil
}

// download downloads a page with an ordinary client. It dials the server's address and looks up no names.
func (r *run) download(ctx context.Context, i, k int, page string) (took time.Duration, bytes int64, err error) {
	dial, leave, err := r.platform.dial(i)
	if err != nil {
		return 0, 0, err
	}
	defer leave()
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true, DisableCompression: true}}
	u, err := url.Parse(page)
	if err != nil {
		return 0, 0, err
	}
	most := r.world.DownloadMs(i, k, sites.MaxBytes, r.started) // think times vary by the page
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second+4*ms(most))
	defer cancel()
	host := u.Host
	u.Host = netip.AddrPortFrom(r.plan.Servers[k].Addr, httpPort).String()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return 0, 0, err
	}
	req.Host = host
	begun := time.Now()
	res, err := client.Do(req)
	if err != nil {
		return 0, 0, err
	}
	bytes, err = io.Copy(io.Discard, res.Body)
	took = time.Since(begun)
	return took, bytes, errors.Join(err, res.Body.Close())
}
