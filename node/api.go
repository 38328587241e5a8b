package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"proxima/frontier"
	"proxima/node/console"
	"proxima/node/wire"
)

// apiRoot begins all paths of the API. New calls and new fields of answers may come in version 1. Those that exist keep their meaning.
const apiRoot = "/api/v1"

// route is a call of the API. A node answers the same calls on its socket and on its console. docs/openapi.json describes them.
type route struct {
	method, path string
	does         string
	query        []param
	body         string // describes the body; "" for none
	// run returns the answer, which is sent as JSON. answer is a value of its type.
	run    func(n *Node, c *apiCall) (any, error)
	answer any
	// stream writes the answer itself. media is its media type.
	stream func(n *Node, w http.ResponseWriter, c *apiCall)
	media  string
}

// acts reports whether the call changes something. It is logged, with who made it.
func (r route) acts() bool { return r.method == http.MethodPost }

// mayBeAsked reports whether peers may make the call, too. So the console of one node can show all nodes.
func (r route) mayBeAsked() bool { return r.run != nil && !r.acts() }

// param is a parameter of a query.
type param struct {
	name, does string
	required   bool
}

// apiCall is a request to the API.
type apiCall struct {
	*http.Request
	by string // who makes it
}

func (c *apiCall) param(name string) string { return c.URL.Query().Get(name) }

func routes() []route {
	return slices.Concat(watchRoutes(), steerRoutes(), webMasterRoutes())
}

// refusal is an error with an HTTP status for the caller.
type refusal struct {
	status int
	error
}

func (r refusal) Unwrap() error { return r.error }

// badInput marks an error that the caller has caused.
func badInput(err error) error { return refusal{http.StatusBadRequest, err} }

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

// trouble is the body of an answer about an error.
type trouble struct {
	Error string `json:"error"`
}

// API answers all calls of the API. by returns who makes a request.
func (n *Node) API(by func(*http.Request) string) *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range routes() {
		mux.HandleFunc(r.method+" "+apiRoot+r.path, func(w http.ResponseWriter, req *http.Request) {
			n.answerCall(w, r, &apiCall{req, by(req)})
		})
	}
	mux.HandleFunc(apiRoot+"/", noSuchCall)
	return mux
}

// noSuchCall answers what is no call, or is made by another method.
func noSuchCall(w http.ResponseWriter, req *http.Request) {
	status, why := http.StatusNotFound, "no such call"
	for _, r := range routes() {
		if apiRoot+r.path == req.URL.Path {
			status, why = http.StatusMethodNotAllowed, "this call is made by "+r.method
			w.Header().Set("Allow", r.method)
		}
	}
	answer(w, status, trouble{why})
}

func (n *Node) answerCall(w http.ResponseWriter, r route, c *apiCall) {
	if to := c.param("node"); r.stream != nil && r.missing(c) == "" && (to == "" || to == n.id.Node) {
		r.stream(n, w, c)
		return
	}
	status, v := n.call(r, c)
	answer(w, status, v)
}

// answerPeer answers a call by a peer, which can make only calls that change nothing.
func (n *Node) answerPeer(ctx context.Context, from string, req *wire.AskRequest) (*wire.AskResponse, error) {
	path, query, _ := strings.Cut(req.GetCall(), "?")
	for _, r := range routes() {
		if r.path != path || !r.mayBeAsked() {
			continue
		}
		web := (&http.Request{Method: r.method, URL: &url.URL{Path: path, RawQuery: query}}).WithContext(ctx)
		if web.URL.Query().Has("node") {
			break // this node does not pass on the question of another one
		}
		status, v := n.call(r, &apiCall{web, from})
		text, err := json.Marshal(v)
		return &wire.AskResponse{Status: uint32(status), Answer: text}, err
	}
	return &wire.AskResponse{Status: http.StatusNotFound, Answer: []byte(`{"error":"no such call"}`)}, nil
}

// missing returns an error text for a required parameter that is missing, or "".
func (r route) missing(c *apiCall) string {
	for _, p := range r.query {
		if p.required && c.param(p.name) == "" {
			return fmt.Sprintf("%s: the parameter is missing: %s", p.name, p.does)
		}
	}
	return ""
}

// call carries out a call, here or at the node that the parameter "node" names. It returns the answer and its HTTP status.
func (n *Node) call(r route, c *apiCall) (status int, v any) {
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
	if r.acts() {
		n.operator.failed(c.by, r.path[1:], err)
	}
	return statusOf(err), trouble{err.Error()}
}

// passOn has a peer answer a call.
func (n *Node) passOn(r route, c *apiCall, to string) (status int, v any) {
	o := n.overlay
	if o == nil || !slices.Contains(o.there().Alive, to) {
		return http.StatusNotFound, trouble{fmt.Sprintf("%s is no member that is there", to)}
	}
	q := c.URL.Query()
	q.Del("node")
	res, err := o.client.Ask(c.Context(), to, &wire.AskRequest{Call: r.path + "?" + q.Encode()})
	if err == nil && !json.Valid(res.GetAnswer()) {
		err = errors.New("its answer is no JSON")
	}
	if err != nil {
		return http.StatusServiceUnavailable, trouble{fmt.Sprintf("%s does not answer: %v", to, err)}
	}
	return int(max(http.StatusOK, min(res.GetStatus(), 599))), json.RawMessage(res.GetAnswer())
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// If this fails, the caller has gone.
	_ = json.NewEncoder(w).Encode(v)
}

// watchRoutes are the calls that say what the node does.
func watchRoutes() []route {
	return []route{
		{method: "GET", path: "/status", does: "Says what the node is doing.", answer: Status{},
			run: func(n *Node, _ *apiCall) (any, error) { return n.Status(), nil }},
		{method: "GET", path: "/host", does: "Says why a host waits; of a name without a scheme, both the host of http and that of https.",
			query: []param{{"name", "the host", true}}, answer: []frontier.HostStatus{},
			run: func(n *Node, c *apiCall) (any, error) { return n.watcher.explain(c.Context(), c.param("name")) }},
		{method: "GET", path: "/metrics", does: "Gives the metrics of the node to Prometheus.", media: "text/plain",
			stream: func(n *Node, w http.ResponseWriter, c *apiCall) { metricsHandler(n.metrics).ServeHTTP(w, c.Request) }},
		{method: "GET", path: "/openapi.json", does: "Describes this API.", media: "application/json",
			stream: func(_ *Node, w http.ResponseWriter, _ *apiCall) { answer(w, http.StatusOK, OpenAPI()) }},
		{method: "GET", path: "/stream", does: "Sends the samples of all nodes and the new events of this one, once a second.", media: "text/event-stream",
			stream: func(n *Node, w http.ResponseWriter, c *apiCall) { n.hub.ServeHTTP(w, c.Request) }},
		{method: "GET", path: "/sample", does: "Says in figures what the node is doing.", answer: console.Sample{},
			run: func(n *Node, _ *apiCall) (any, error) { return n.watcher.sampleNow(), nil }},
		{method: "GET", path: "/history", does: "Gives the samples of the last hour.", answer: []console.Sample{},
			run: func(n *Node, _ *apiCall) (any, error) { return n.book.Samples(), nil }},
		{method: "GET", path: "/events", does: "Gives the latest events.", query: []param{{"after", "the number of the last one that is known", false}}, answer: []console.Event{},
			run: func(n *Node, c *apiCall) (any, error) {
				after, err := number(c.param("after"))
				return n.book.Events(uint64(after), 300), err
			}},
		{method: "GET", path: "/decisions", does: "Gives the latest decisions about hosts.", answer: []console.Decision{},
			run: func(n *Node, _ *apiCall) (any, error) { return n.book.Decisions(), nil }},
		{method: "GET", path: "/places", does: "Says where the servers are that the node crawls, or has crawled in the last hour.",
			query: []param{{"t", "the moment, Unix time in ms; now where it is missing", false}}, answer: console.Places{},
			run: func(n *Node, c *apiCall) (any, error) {
				t, err := number(c.param("t"))
				if t > 0 {
					return n.book.PlacesAt(t), err
				}
				return n.watcher.placesNow(), err
			}},
		{method: "GET", path: "/hosts", does: "Finds hosts on the workbench, those with the most URLs in memory first.",
			query: []param{{"part", "what their names contain", false}}, answer: HostList{},
			run: func(n *Node, c *apiCall) (any, error) { return n.watcher.hosts(c.param("part")), nil }},
		{method: "GET", path: "/servers", does: "Gives the web servers on the workbench, at most 300, those with the most hosts first.", answer: []ServerRow{},
			run: func(n *Node, _ *apiCall) (any, error) { return n.watcher.servers(), nil }},
		{method: "GET", path: "/members", does: "Gives the members of the overlay as the node sees them.", answer: []MemberRow{},
			run: func(n *Node, _ *apiCall) (any, error) { return n.watcher.members(), nil }},
	}
}

// number reads a parameter. It returns 0 if the parameter is missing.
func number(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 {
		return 0, badInput(fmt.Errorf("%q is not a number", text))
	}
	return v, nil
}
