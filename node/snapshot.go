package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"proxima/frontier"
	"proxima/frontier/identity"
)

// The lines of a snapshot. A host comes before its URLs.
type (
	snapshotHost struct {
		Host    string `json:"host"`
		Role    string `json:"role"`
		Done    uint64 `json:"done"`
		Failed  uint64 `json:"failed"`
		Dropped uint64 `json:"dropped"`
	}
	snapshotURL struct {
		URL   string `json:"url"`
		Depth uint8  `json:"depth"`
	}
	snapshotEnd struct {
		Hosts int `json:"hosts"`
		URLs  int `json:"urls"`
	}
)

const (
	// snapshotHosts is how many hosts are read at once. snapshotURLs and snapshotBytes bound the URLs that are read at once.
	snapshotHosts, snapshotURLs, snapshotBytes = 256, 1000, 1 << 20
	// snapshotPatience is how long the reader of a snapshot may take for each part.
	snapshotPatience = time.Minute
)

// writeSnapshot writes all hosts of a frontier, including replicas, and their pending URLs, one JSON object a line. The crawl goes on
// meanwhile, so each part of a host shows another moment. The last line counts hosts and URLs: if it is missing, the snapshot is not
// complete.
func writeSnapshot(ctx context.Context, f *frontier.Frontier, w io.Writer) error {
	out := json.NewEncoder(w)
	var end snapshotEnd
	for after := ""; ; {
		hosts, err := f.List(ctx, after, snapshotHosts)
		if err != nil {
			return err
		}
		if len(hosts) == 0 {
			return out.Encode(end)
		}
		for _, h := range hosts {
			after = h.Host
			if err := out.Encode(snapshotHost{Host: h.Host, Role: h.Role.String(), Done: h.Done, Failed: h.Failed, Dropped: h.Dropped}); err != nil {
				return err
			}
			end.Hosts++
			var at frontier.Cursor
			for over := false; !over; {
				var c frontier.Chunk
				if c, at, over, err = f.Export(ctx, h.Host, at, snapshotURLs, snapshotBytes); err != nil {
					return err
				}
				for _, p := range c.Pending {
					if err := out.Encode(snapshotURL{identity.URL{Host: h.Host, Path: p.Path}.String(), p.Depth}); err != nil {
						return err
					}
				}
				end.URLs += len(c.Pending)
				over = over || len(c.Done) > 0 || len(c.Pages) > 0 // pending URLs come first
			}
		}
	}
}

func answerSnapshot(n *Node, w http.ResponseWriter, c *apiCall) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	// If this fails, the reader sees that the last line is missing.
	if err := writeSnapshot(c.Context(), n.frontier, patient{w, http.NewResponseController(w)}); err != nil && c.Context().Err() == nil {
		n.warn(fmt.Errorf("write snapshot: %w", err))
	}
}

// patient gives the reader of an answer time for each part, instead of for the whole.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (p patient) Write(b []byte) (int, error) {
	if err := p.control.SetWriteDeadline(time.Now().Add(snapshotPatience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return p.ResponseWriter.Write(b)
}
