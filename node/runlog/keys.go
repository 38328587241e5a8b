package runlog

// Version is the schema version of every line. It changes when a key changes its meaning, not when a key is added.
const Version = 1

// Names of the logs. The current file of a log is NAME.jsonl; rotated files are NAME-000001.jsonl and so on.
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

// names lists all logs.
var names = []string{LogFetch, LogQueue, LogLoad, LogNode, LogCoord, LogProxy, LogAssign, LogMember, LogChange}

// Keys of the node log. In addition to the keys of every line, an event has the keys named with it below.
const (
	KeyV     = "v"
	KeyRun   = "run"
	KeyNode  = "node"
	KeyBoot  = "boot"
	KeySeq   = "seq"
	KeyTime  = "time"
	KeyEvent = "event" // one of the events below
	KeyLevel = "level" // INFO, WARN, ERROR

	KeyAddress       = "address"         // where the node serves something
	KeyBy            = "by"              // who steered the node
	KeyBytes         = "bytes"           // size
	KeyConfig        = "config"          // effective configuration as text, with passwords in URLs removed
	KeyCount         = "count"           // number of things that the event is about
	KeyDiskFreeBytes = "disk_free_bytes" // free for unprivileged users, in the file system of the data directory
	KeyForMs         = "for_ms"          // duration
	KeyHost          = "host"            // scheme, name and port
	KeyKind          = "kind"            // kind of refusal, as in the protocol
	KeyPackage       = "package"         // name of a package
	KeyPeer          = "peer"            // id of the other node, or the host of a stranger
	KeyReason        = "reason"          // the reason in words
	KeyText          = "text"            // beginning of an oversized event
	KeyURL           = "url"
	KeyVersion       = "version" // release of the program, or the commit it was built from
)

// Events of the node log.
const (
	EventStart           = "start"             // the node has started; with KeyVersion, KeyConfig
	EventWaits           = "waits"             // the crawl has not ended for some seconds because of KeyReason
	EventOver            = "over"              // the crawl is over everywhere; with KeyReason: how this node knows
	EventStop            = "stop"              // the node stops in order; with KeyReason
	EventBlocklist       = "blocklist"         // a blocklist was loaded, or could not be; with KeyCount, KeyReason
	EventDNS             = "dns"               // a name did not resolve; with KeyHost, KeyReason
	EventHostBackoff     = "host_backoff"      // a host, or one of its URLs, must wait; with KeyHost, KeyURL, KeyReason, KeyForMs
	EventHostDropped     = "host_dropped"      // the node gave up a host with all its URLs; with KeyHost, KeyReason, KeyCount
	EventHostLeftOut     = "host_left_out"     // a batch continues without a host; with KeyHost, KeyReason, KeyCount
	EventDiskFull        = "disk_full"         // free disk space fell below the watermark; with KeyDiskFreeBytes, KeyReason
	EventDiskOK          = "disk_ok"           // free space is above the watermark again; with KeyDiskFreeBytes
	EventOwnTrouble      = "own_trouble"       // the node itself cannot download, or its disk does not answer; it waits and blames no host; with KeyReason
	EventOwnTroubleOver  = "own_trouble_over"  // it can again; with KeyReason
	EventPackage         = "package"           // the destination acknowledged a package; with KeyPackage, KeyCount: pages, KeyBytes
	EventSinkTrouble     = "sink_trouble"      // packages cannot be written or delivered; with KeyReason
	EventSinkTroubleOver = "sink_trouble_over" // they can again; with KeyReason
	EventWarning         = "warning"           // something is wrong, but the node continues; with KeyReason; KeyHost, KeyURL if it is about a download
	EventError           = "error"             // something failed; with KeyReason
	EventRefused         = "refused"           // the node refused a message; with KeyPeer, KeyKind, KeyReason, KeyCount
	EventSecret          = "secret"            // the secret file has changed; with KeyReason: fingerprints of the secrets
	EventRequest         = "request"           // a web master asks for a block without proof; with KeyHost, KeyReason: the note, KeyBy: the address
	EventControl         = "control"           // an operator steers the node; with KeyReason, KeyBy; KeyHost if it is about a host, KeyPeer if it was done at another node
	EventConsole         = "console"           // the node serves the console; with KeyAddress
	EventOversized       = "oversized"         // an event was too long for a line; with KeyText, KeyBytes
)

// Kinds of downloads.
const (
	KindPage    = "page"
	KindRobots  = "robots"
	KindSitemap = "sitemap"
)

// Changes of a page that a visit finds.
const (
	ChangeChanged = "changed" // its text differs
	ChangeTrivial = "trivial" // its text differs only in counters, dates and the like
	ChangeGone    = "gone"    // the server says that the page is gone
	ChangeMoved   = "moved"   // the page has moved permanently
	ChangeBack    = "back"    // the page was gone and is back
)

// Origins of a URL: found by this node's crawl, requested by a home as an estimate, assigned to this node, or visited again.
const (
	OriginDiscovered = "discovered"
	OriginEstimate   = "estimate"
	OriginAssigned   = "assigned"
	OriginRevisit    = "revisit"
)
