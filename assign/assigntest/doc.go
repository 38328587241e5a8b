// Package assigntest holds what tests of assigners share: a suite that every assigner passes (Conformance), and a world
// without a network (World) in which the truth about every choice is known. It decides nothing.
package assigntest
