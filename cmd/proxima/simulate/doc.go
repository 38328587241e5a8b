// Package simulate is a world without a network: nodes and servers drawn over a matrix of round trips, whose downloads are
// drawn by a model instead of made. It drives the real ncoord and assign, unchanged, and judges their choices by a truth that
// they do not see. What is simulated is the world; how assigners decide is not its business.
package simulate
