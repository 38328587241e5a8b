// Package site returns the settings of a URL: those of the crawl, overridden by the [[site]] entries of the configuration that apply to it.
// The crawl asks a Table for every link and every request, so a Table prepares everything once and never changes.
package site
