package journal

// Version of the schema of every line. It grows when a key changes its meaning; new keys do not need a new version.
const Version = 1

// Names of the logs: files are NAME.jsonl and, rotated, NAME-000001.jsonl and so on.
const (
	LogFetch  = "fetch"
	LogQueue  = "queue"
	LogLoad   = "load"
	LogNode   = "node"
	LogCoord  = "coord"
	LogProxy  = "proxy"
	LogAssign = "assign"
	LogMember = "member"
	LogChange = "change"
)

// names are those of all logs.
var names = []string{LogFetch, LogQueue, LogLoad, LogNode, LogCoord, LogProxy, LogAssign, LogMember, LogChange}

// Keys of every line.
const (
	KeyV    = "v"    // Version
	KeyRun  = "run"  // name of the crawl
	KeyNode = "node" // id of the node
	KeyBoot = "boot" // which of the node's lives
	KeySeq  = "seq"  // 1, 2, … in this log and boot; a gap is a line that the disk refused
	KeyTime = "time" // when the line was written; RFC 3339, UTC, milliseconds
)

// Keys of a line of the fetch log. Durations are in milliseconds, 0 where the stage did not happen (a connection used
// again has no dns, connect and tls) or was not reached.
const (
	KeyURL         = "url"
	KeyHost        = "host"          // scheme, name and port of the URL
	KeyServer      = "server"        // address that was dialled, "" if none
	KeyKind        = "kind"          // KindPage, KindRobots, KindSitemap
	KeyStatus      = "status"        // HTTP status, 0 if none
	KeyError       = "error"         // class of error, "" if none
	KeyReason      = "reason"        // the same in words
	KeyBytes       = "bytes"         // body as it crossed the wire
	KeyBodyBytes   = "body_bytes"    // body decoded
	KeyType        = "type"          // content type as the server says
	KeyDNSMs       = "dns_ms"        // name to addresses
	KeyConnectMs   = "connect_ms"    // TCP handshake: one round trip
	KeyTLSMs       = "tls_ms"        // TLS handshake
	KeyRequestMs   = "request_ms"    // connection ready to request written
	KeyFirstByteMs = "first_byte_ms" // request written to first byte of the answer: a round trip and the server's thought
	KeyLastByteMs  = "last_byte_ms"  // first byte to last byte of the body
	KeyTotalMs     = "total_ms"      // from dialling or using the connection to the last byte, or to the failure; without dns
	KeyFresh       = "fresh"         // whether the connection was made for this request
	KeyProtocol    = "protocol"      // "http/1.1", "h2"
	KeyWaitedMs    = "waited_ms"     // how long the URL was ready before its download began
	KeyOrigin      = "origin"        // OriginDiscovered, OriginEstimate, OriginAssigned, OriginRevisit
	KeyLabel       = "label"         // assigners that chose this node, with commas between them
	KeyBatch       = "batch"         // of what a batch asked for: beginning of the home's id, boot, number; what an owner does itself has label and epoch
	KeyHome        = "home"          // id of the host's home
	KeyEpoch       = "epoch"         // epoch of the host's record
	KeyAttempt     = "attempt"       // 1 for the first
	KeyDepth       = "depth"         // links from a seed
	KeyHops        = "hops"          // redirects followed to get here
	KeyLinks       = "links"         // links found on the page
	KeyAccepted    = "accepted"      // of these, URLs new to this node; in the queue log all since the boot
)

// Keys of a line of the change log, one for each visit that found a page another than before. It has the url, host and
// status of the visit, too.
const (
	KeyWhat       = "what"        // ChangeChanged, ChangeTrivial, ChangeGone, ChangeMoved or ChangeBack
	KeyDistance   = "distance"    // bits in which the fingerprints of the two texts differ, of 64
	KeySeenBefore = "seen_before" // the visit before; RFC 3339, UTC
	KeyVisits     = "visits"      // how often the page was seen, this time too
)

// Keys of a line of the queue log. What is named for a state is the number now, the rest counts since the boot. The books
// balance: accepted + at_start + arrived = done + failed + dropped + left + pending.
const (
	KeyPending        = "pending"         // URLs waiting
	KeyHostsActive    = "hosts_active"    // hosts with URLs in memory
	KeyHostsWaiting   = "hosts_waiting"   // active hosts that may not be asked now; KeyWaits says why
	KeyServersReady   = "servers_ready"   // servers that could be asked now
	KeyServersBusy    = "servers_busy"    // servers being asked
	KeyServersWaiting = "servers_waiting" // servers whose next request is due later
	KeyInFlight       = "in_flight"       // downloads going on
	KeyDuplicate      = "duplicate"       // URLs seen before
	KeyDone           = "done"            // URLs finished, with whatever status
	KeyFailed         = "failed"          // URLs given up
	KeyDropped        = "dropped"         // URLs thrown away after they were accepted
	KeyAtStart        = "at_start"        // URLs that were pending when the process started
	KeyArrived        = "arrived"         // pending URLs that came with their hosts
	KeyLeft           = "left"            // pending URLs that went with their hosts
	KeyHeld           = "held"            // pending URLs kept here for other owners; not in pending
	KeyDrops          = "drops"           // reason -> URLs not queued or thrown away
	KeyWaits          = "waits"           // reason -> hosts waiting now
	KeyQueues         = "queues"          // origin -> URLs in memory that wait to be drawn; more may wait on disk
)

// Keys of a line of the load log. Messages and bytes count since the boot.
const (
	KeyLoad1         = "load1"           // the machine's load average of a minute
	KeyCPUSeconds    = "cpu_s"           // processor time of the process since it started
	KeyRSSBytes      = "rss_bytes"       // resident memory of the process
	KeyHeapBytes     = "heap_bytes"      // objects on the heap of Go
	KeyGoroutines    = "goroutines"      //
	KeyMessagesSent  = "messages_sent"   // to peers
	KeyBytesSent     = "bytes_sent"      // to peers
	KeyBytesReceived = "bytes_received"  // from peers
	KeyLinksSent     = "links_sent"      // to their hosts' owners or homes among the peers
	KeyDiskFreeBytes = "disk_free_bytes" // where the data directory is, for users without privileges
)

// Keys of a line of the coordinate log: one round trip to a peer, and where it left this node.
const (
	KeyPeer     = "peer"      // id of the other node
	KeyRTTMs    = "rtt_ms"    // round trip as measured
	KeyVector   = "vector"    // coordinate of this node: components in ms
	KeyHeightMs = "height_ms" // its height
	KeyAccuracy = "accuracy"  // its error, relative
	KeyRefused  = "refused"   // why the sample was refused, "" if it was not
)

// Keys of a line of the proxy log: what is known of a server, and the download time expected at each peer. Label is the assigner that has
// decided by it, "" for what owners know.
const (
	KeyUpdates     = "updates"      // samples so far
	KeyThinkMs     = "think_ms"     // what the server itself needs before the first byte
	KeyPageBytes   = "page_bytes"   // its typical page
	KeyPredictedMs = "predicted_ms" // proxy log: node -> ms; assign log: ms at the node that was chosen
)

// Keys of a line of the assign log: where an assigner of a batch wants a host, or that a host has a new owner.
const (
	KeyOwner     = "owner"     // id of the node
	KeyURLs      = "urls"      // pending at the decision
	KeyEstimates = "estimates" // estimates asked for before the decision about the server, failed ones among them
	KeySeconds   = "seconds"   // from the beginning of the batch to the decision
	KeyDecided   = "decided"   // true: the choice of an assigner; false: a hand-off that is done
)

// Keys of a line of the member log.
const (
	KeyChange   = "change"   // joined, left, died, returned; took, handed over, received, obeyed, without copy, aborted
	KeyMembers  = "members"  // settled members after it
	KeyAddress  = "address"  // where the peer speaks the peer protocol
	KeyMajority = "majority" // whether this node is on the larger side
)

// Keys of a line of the node log. Further keys come with the events; they are those above and the last group here.
const (
	KeyEvent = "event" // one of the events below
	KeyLevel = "level" // INFO, WARN, ERROR

	KeyConfig  = "config"  // effective configuration as text, without the passwords in URLs
	KeyVersion = "version" // of the program: its release, or the commit it was built from
	KeyCount   = "count"   // how many of what the event is about
	KeyForMs   = "for_ms"  // how long it lasts or lasted
	KeyPackage = "package" // its name
	KeyText    = "text"    // beginning of a line too long to be kept
	KeyBy      = "by"      // who has steered the node
)

// Events of the node log.
const (
	EventStart           = "start"             // the process runs; with KeyVersion, KeyConfig
	EventWaits           = "waits"             // what has kept the crawl from ending for some seconds; with KeyReason
	EventOver            = "over"              // the crawl is over everywhere; with KeyReason: how this node knows
	EventStop            = "stop"              // it ends in order; with KeyReason
	EventBlocklist       = "blocklist"         // the list was (re)loaded or could not be; with KeyCount, KeyReason
	EventDNS             = "dns"               // a name did not resolve; with KeyHost, KeyReason
	EventHostBackoff     = "host_backoff"      // a host, or one URL of it, rests; with KeyHost, KeyURL, KeyReason, KeyForMs
	EventHostDropped     = "host_dropped"      // a host is given up with all its URLs; with KeyHost, KeyReason, KeyCount
	EventHostLeftOut     = "host_left_out"     // a batch goes on without a host; with KeyHost, KeyReason, KeyCount
	EventDiskFull        = "disk_full"         // free space fell below the watermark; with KeyDiskFreeBytes
	EventDiskOK          = "disk_ok"           // and is above it again; with KeyDiskFreeBytes
	EventOwnTrouble      = "own_trouble"       // this node itself cannot download: it waits, no host is blamed; with KeyReason
	EventOwnTroubleOver  = "own_trouble_over"  // it can again; with KeyReason
	EventPackage         = "package"           // a package was acknowledged by its sink; with KeyPackage, KeyCount: pages, KeyBytes
	EventSinkTrouble     = "sink_trouble"      // packages cannot be written or delivered; with KeyReason
	EventSinkTroubleOver = "sink_trouble_over" // they can again; with KeyReason
	EventWarning         = "warning"           // something is wrong, the node goes on; with KeyReason
	EventError           = "error"             // something failed; with KeyReason
	EventRefused         = "refused"           // a message that could not be accepted; with KeyPeer, KeyKind, KeyReason, KeyCount
	EventSecret          = "secret"            // the secret file has changed; with KeyReason: fingerprints of the secret used, and of the other that is accepted
	EventRequest         = "request"           // a web master wants something without proof; with KeyHost, KeyReason: the note, KeyBy: the address
	EventControl         = "control"           // an operator steers the node; with KeyReason, KeyBy, and KeyHost where it is about one, KeyPeer where it was said on another node
	EventConsole         = "console"           // the page for a browser is served; with KeyAddress
	EventOversized       = "oversized"         // an event longer than MaxLine, of which KeyText is the beginning; with KeyBytes
)

// Kinds of a download.
const (
	KindPage    = "page"
	KindRobots  = "robots"
	KindSitemap = "sitemap"
)

// What a visit found of a page.
const (
	ChangeChanged = "changed" // its text is another
	ChangeTrivial = "trivial" // its text differs in a counter, a date or the like
	ChangeGone    = "gone"    // the server says that it is no more
	ChangeMoved   = "moved"   // it is elsewhere for good
	ChangeBack    = "back"    // it was gone, and is there again
)

// Origins of a URL: found by this crawl, asked by a home for an estimate, assigned to this node, or visited again.
const (
	OriginDiscovered = "discovered"
	OriginEstimate   = "estimate"
	OriginAssigned   = "assigned"
	OriginRevisit    = "revisit"
)
