// Package world has the cities of an emulated Internet and the round trips between them, built in or read from files. It knows nothing
// about nodes, servers or downloads.
package world
