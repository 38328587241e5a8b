// Package drawing holds what pages draw with: the plotting library uPlot and the coastlines of the world. The console of a node and the report of a
// comparison share it.
package drawing

import _ "embed"

// Script is uPlot, a small library that plots series over time.
//
//go:embed uplot/uPlot.iife.min.js
var Script string

// Style is the style sheet of uPlot.
//
//go:embed uplot/uPlot.min.css
var Style string

// Land is the land of the world as one path of SVG, in half degrees east and south, from the 1:110m map of Natural Earth (public domain).
//
//go:embed land.path
var Land string
