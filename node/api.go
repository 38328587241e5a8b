package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/runlog"
)

// apiRoot is where the API begins. Version 1 gets new calls, and new fields in answers; what is there keeps its meaning.
const apiRoot = "/api/v1"

// route is a call of the API. The table of them is what a node answers, on its socket and on its console alike, and what docs/openapi.json says.
type route struct {
	method, path string
	does         string
	query        []param
	body         string // what the body is, "" for none
	// acts: it changes something, and its event in the log says who did.
	acts bool
	// run gives the answer, which is sent as JSON; answer is a value of its type.
	run    func(n *Node, c *apiCall) (any, error)
	answer any
	// stream answers by itself, in the form that media names.
	stream func(n *Node, w http.ResponseWriter, c *apiCall)
	media  string
}

// mayBeAsked says whether peers may make the call, too: those who watch one node see all.
func (r route) mayBeAsked() bool { return r.run != nil && !r.acts }

// param is a parameter of a query.
type param struct {
	name, does string
	required   bool
}

// apiCall is a request to the API.
type apiCall struct {
	*http.Request
	by string // who asks
}

// param is the text of a parameter.
func (c *apiCall) param(name string) string { return c.URL.Query().Get(name) }

// routes are all calls of the API.
func routes() []route {
	return slices.Concat(statusRoutes(), watchRoutes(), controlRoutes(), steerRoutes(), doorRoutes())
}

// refusal is an error that tells the caller whose fault it is, by an HTTP status.
type refusal struct {
	status int
	error
}

func (r refusal) Unwrap() error { return r.error }

// badInput says that the caller must ask for something else.
func badInput(err error) error { return refusal{http.StatusBadRequest, err} }

// statusOf is the HTTP status of an error.
func statusOf(err error) int {
	var r refusal
	switch {
	case errors.As(err, &r):
		return r.status
	case errors.Is(err, ErrNotHere):
		return http.StatusNotFound
	case errors.Is(err, ErrAlone), errors.Is(err, ErrNotNow):
		return http.StatusConflict
	case errors.Is(err, frontier.ErrDiskFull), errors.Is(err, frontier.ErrClosed), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// trouble is the body of an answer that is an error.
type trouble struct {
	Error string `json:"error"`
}

// API answers all calls; by says who asks.
func (n *Node) API(by func(*http.Request) string) *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range routes() {
		mux.HandleFunc(r.method+" "+apiRoot+r.path, func(w http.ResponseWriter, req *http.Request) {
			n.serveCall(w, r, &apiCall{req, by(req)})
		})
	}
	return mux
}

func (n *Node) serveCall(w http.ResponseWriter, r route, c *apiCall) {
	if to := c.param("node"); r.stream != nil && r.missing(c) == "" && (to == "" || to == n.id.Node) {
		r.stream(n, w, c)
		return
	}
	status, v := n.carryOut(r, c)
	answer(w, status, v)
}

// missing says which parameter a call lacks; "" for none.
func (r route) missing(c *apiCall) string {
	for _, p := range r.query {
		if p.required && c.param(p.name) == "" {
			return fmt.Sprintf("%s: the parameter is missing: %s", p.name, p.does)
		}
	}
	return ""
}

// carryOut makes a call and gives its answer, with the HTTP status.
func (n *Node) carryOut(r route, c *apiCall) (status int, v any) {
	if why := r.missing(c); why != "" {
		return http.StatusBadRequest, trouble{why}
	}
	switch to := c.param("node"); {
	case to == "" || to == n.id.Node:
	case r.mayBeAsked():
		return n.passOn(r, c, to)
	default:
		return http.StatusBadRequest, trouble{"that is done where a node runs: this is " + n.id.Node}
	}
	v, err := r.run(n, c)
	if err == nil {
		return http.StatusOK, v
	}
	if r.acts {
		n.runlog.Events().Warn(runlog.EventControl, runlog.KeyReason, fmt.Sprintf("%s failed: %v", r.path[1:], err), runlog.KeyBy, c.by)
	}
	return statusOf(err), trouble{err.Error()}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The caller has gone where this fails: nothing to be done for it.
	_ = json.NewEncoder(w).Encode(v)
}

// statusRoutes are the calls that only ask.
func statusRoutes() []route {
	return []route{
		{method: "GET", path: "/status", does: "Says what the node is doing.", answer: Status{},
			run: func(n *Node, _ *apiCall) (any, error) { return n.Status(), nil }},
		{method: "GET", path: "/host", does: "Says why a host waits; of a name without a scheme, both the host of http and that of https.",
			query: []param{{"name", "the host", true}}, answer: []frontier.HostStatus{},
			run: func(n *Node, c *apiCall) (any, error) { return n.explain(c.Context(), c.param("name")) }},
		{method: "GET", path: "/metrics", does: "Gives the metrics of the node to Prometheus.", media: "text/plain",
			stream: func(n *Node, w http.ResponseWriter, c *apiCall) { metricsHandler(n.metrics).ServeHTTP(w, c.Request) }},
		{method: "GET", path: "/openapi.json", does: "Describes this API.", media: "application/json",
			stream: func(_ *Node, w http.ResponseWriter, _ *apiCall) { answer(w, http.StatusOK, OpenAPI()) }},
	}
}

// Acted is the answer to an act.
type Acted struct {
	// Refused counts seeds that were not added, by the reason.
	Refused map[string]int `json:"refused,omitempty"`
	// Dropped counts URLs that were given up.
	Dropped int `json:"dropped,omitempty"`
	// Gone are the nodes that the node goes on without.
	Gone []string `json:"gone,omitempty"`
	// Moved are the hosts that another node owns now.
	Moved []string `json:"moved,omitempty"`
	// Set are the keys that have another value now, and NotSet says which do not, and why.
	Set    []string `json:"set,omitempty"`
	NotSet []string `json:"not_set,omitempty"`
	// Next says what is to be done next.
	Next string `json:"next,omitempty"`
}

// maxSeeds is the longest list of seeds that is taken at once, in bytes.
const maxSeeds = 16 << 20

// controlRoutes are the acts of an operator.
func controlRoutes() []route {
	return []route{
		{method: "POST", path: "/pause", acts: true, does: "Lets no new request begin until resume, in later lives of the node, too. What is under way ends.", answer: Acted{},
			run: func(n *Node, c *apiCall) (any, error) { return Acted{}, n.Pause(c.by) }},
		{method: "POST", path: "/resume", acts: true, does: "Ends pause.", answer: Acted{},
			run: func(n *Node, c *apiCall) (any, error) { return Acted{}, n.Resume(c.by) }},
		{method: "POST", path: "/seeds", acts: true, does: "Adds seeds to the crawl as if they had been there from the start.", answer: Acted{},
			body: "URLs, one a line", run: takeSeeds},
		{method: "POST", path: "/drop", acts: true, does: "Gives up the pending URLs of a host that this node owns.", answer: Acted{},
			query: []param{{"host", "the host; a name without a scheme stands for those of http and https", true}},
			run: func(n *Node, c *apiCall) (any, error) {
				dropped, err := n.Drop(c.Context(), c.param("host"), c.by)
				return Acted{Dropped: dropped}, err
			}},
		{method: "POST", path: "/go-alone", acts: true, does: "Says that the members that the node does not see are gone for good.", answer: Acted{},
			run: func(n *Node, c *apiCall) (any, error) {
				gone, err := n.GoAlone(c.by)
				return Acted{Gone: gone}, err
			}},
	}
}

func takeSeeds(n *Node, c *apiCall) (any, error) {
	seeds, err := identity.ReadSeeds(http.MaxBytesReader(nil, c.Body, maxSeeds))
	if err = errors.Join(append(seeds.Errors, err)...); err != nil {
		return nil, badInput(err)
	}
	if len(seeds.URLs) == 0 {
		return nil, badInput(errors.New("there is no URL in the body"))
	}
	refused, err := n.AddSeeds(c.Context(), seeds.URLs, c.by)
	return Acted{Refused: refused}, err
}
