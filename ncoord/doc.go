// Package ncoord owns network coordinates: the place of a node and, on its behalf, of a server, in a space whose
// distances predict round trips. It filters round trips, moves coordinates by them (Vivaldi, Dabek et al., SIGCOMM 2004,
// with the repairs of Ledlie et al., "Network Coordinates in the Wild", NSDI 2007), refuses what cannot be, and says
// which coordinate is worth telling others.
//
// It does not own how round trips are measured, how coordinates travel, who is chosen with them, or how locations are
// found. It is pure: no I/O, locks, goroutines or clocks; time and randomness are arguments.
package ncoord
