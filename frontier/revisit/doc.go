// Package revisit decides when a page is visited again.
//
// A History sums up, in a few bytes, what the visits of one page have shown. A Sample holds the histories of some thousand pages, drawn
// evenly from all pages. Now and then a Plan is made from the sample. It holds how often pages change, and the price of a visit: the price
// at which the pages of this node need as many visits as the budget allows. Plan.Next says when a page with its history is due.
//
// The model is that each page changes at random at its own rate (a Poisson process), and that a visit shows whether a page has changed,
// but not how often: Cho and Garcia-Molina, "Estimating frequency of change", 2003. The rate of a page is not known. Therefore everything is
// computed over its posterior distribution: the likelihood of its history times the distribution of rates among all pages, which is
// learnt from the sample (empirical Bayes). Next maximises the mean share of pages whose copy is fresh: a page is due when one more visit
// gains as much as the price, which is the same for all pages (Cho and Garcia-Molina, "Effective page refresh policies", 2003; Azar and
// others, "Tractable near-optimal policies for crawling", 2018). Pages that change all the time get few visits, because a copy of them is
// never fresh for long.
//
// Pages are visited in the order in which they are due, as fast as the budget allows. The time when a page is due is computed once, after
// its last visit.
//
// The package is pure: no clock, no lock, no input or output. A Plan does not change and is safe for concurrent use. A Sample belongs to
// one goroutine.
package revisit
