// Package revisit says when a page is to be looked at again.
//
// Three things go together. A History is what the visits of one page have told, in a few bytes. A Sample holds the
// histories of some thousand pages, drawn evenly from all. A Plan is made of a sample now and then: how often pages
// change here, and the price of a visit at which the pages of this node ask for as many visits as its budget allows.
// Next then says when a page with its history is due.
//
// Pages are taken to change at random, each at a rate of its own (a Poisson process), and a visit sees that a page has
// changed but not how often: Cho and Garcia-Molina, "Estimating frequency of change", 2003. The rate of a page is never
// known, so all is computed over its posterior: the likelihood of its history times the distribution of rates among all
// pages, which is itself learnt from the sample (empirical Bayes). Next maximises the mean share of pages whose copy is
// fresh: a page is due when one more visit would gain as much as the price, which is the same for all pages (Cho and
// Garcia-Molina, "Effective page refresh policies", 2003; Azar and others, "Tractable near-optimal policies for
// crawling", 2018). So pages that change at each look get few visits: a copy of them is never fresh for long.
//
// Pages are visited in the order in which they are due, as fast as the budget allows. When a page is due is decided
// once, after its last visit.
//
// All of it is pure: no clock, no lock, no input or output. A Plan does not change and is safe for concurrent use; a
// Sample belongs to one goroutine.
package revisit
