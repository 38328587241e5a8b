// Package world has the places of an emulated Internet: cities, and round trips among them, built in or read from files. It
// knows nothing of nodes, servers or downloads: who puts them there says what they add.
package world
