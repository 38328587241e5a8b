// Package frontier holds the URLs of a node: it decides whether a URL is new, keeps all of them on disk, and hands out the next one to
// download.
//
// Open reads what is on disk, and Run keeps the frontier going. Add offers URLs, Take hands out the next task, and Finish ends it with what was
// found (example_test.go). The types of this are in task.go.
//
// Its main parts are:
//
//   - The ledger (ledger.go) is what is on disk. A caller hands it an operation. One goroutine carries the operations out, puts the
//     changes of many into one transaction, and answers when that is on disk. Nothing is acknowledged before.
//   - The workbench (workbench.go) is what can be crawled now: hosts with a window of their URLs, grouped by server, and servers in the
//     order in which they may be asked. It is in memory only. Taking a URL looks at the heads of queues.
//   - Both share a front (front.go): their lock, and the callers that wait. On the front stand activation (activate.go), which brings
//     hosts from disk onto the workbench; placing (placing.go), which finds out at which server a host is; leases (lease.go); and
//     transfers (role.go, export.go, import.go), which carry hosts from node to node.
//
// Where to find an answer:
//
//   - Is a link new? ledger.admit in decide.go is the one place that decides it. It asks a cache of recent hashes and a filter (seen.go),
//     and for the rest the exact set of the host (sets.go). URLs that arrive with a host from another node (Import) use the same look-up.
//   - Which URL comes next? workbench.take in take.go.
//   - When may a server be asked? rules.gap in politeness.go, and leases in lease.go.
//   - What is on disk? keys.go describes the keys; record.go, block.go and page.go the values.
//   - What is a host to this node? Role in role.go.
//   - When is a page visited again? recrawl.go applies a visit, due.go finds the pages that are due, and package revisit makes the plan.
//   - When are two URLs the same, and which are in scope? Package identity.
//
// The frontier does not download or parse pages, resolve names, or know other nodes. The node carries names, addresses and outcomes
// between the frontier and the packages that make them.
package frontier
