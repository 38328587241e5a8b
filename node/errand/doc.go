// Package errand lets peers download pages for one another. A node that decides where a server belongs asks peers for one
// page each and gets their timings back; in a comparison, every node that was chosen downloads the same page.
//
// It owns the asks that wait for an answer, the jobs that were taken for others, and the answers on their way: all in
// memory, all bounded. It does not download (the crawl loop does, with what it finds in the job), does not decide whom to
// ask (batch does), owns no lease and no queue: a job waits in the frontier's, like other work.
//
// An ask is sent until the peer acknowledges it, and waits for its answer for a bounded time. A job that has waited too
// long is given back unmade; one that has begun must end before the asker stops waiting, so that the asker may then send
// the next request to the same server without meeting the last. The answer is sent until it arrives, for as long.
package errand
