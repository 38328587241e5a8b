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

// Keys of the node log. Each event has those that stand beside it, besides those of every line.
const (
	KeyV     = "v"
	KeyRun   = "run"
	KeyNode  = "node"
	KeyBoot  = "boot"
	KeySeq   = "seq"
	KeyTime  = "time"
	KeyEvent = "event" // one of the events below
	KeyLevel = "level" // INFO, WARN, ERROR

	KeyAddress       = "address"         // where something is served
	KeyBy            = "by"              // who has steered the node
	KeyBytes         = "bytes"           // its size
	KeyConfig        = "config"          // effective configuration as text, without the passwords in URLs
	KeyCount         = "count"           // how many of what the event is about
	KeyDiskFreeBytes = "disk_free_bytes" // where the data directory is, for users without privileges
	KeyForMs         = "for_ms"          // how long it lasts or lasted
	KeyHost          = "host"            // scheme, name and port
	KeyKind          = "kind"            // what kind of message
	KeyPackage       = "package"         // its name
	KeyPeer          = "peer"            // id of the other node
	KeyReason        = "reason"          // why, in words
	KeyText          = "text"            // beginning of a line too long to be kept
	KeyURL           = "url"
	KeyVersion       = "version" // of the program: its release, or the commit it was built from
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
