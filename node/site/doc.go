// Package site answers what holds for a URL: the settings of the crawl, with those that the operator has made for its site put
// over them. A Table is asked for every link and every request, so it is made ready once and never changes. The package owns
// no clock and no network.
package site
