package ncoord

// Refusal is why a sample was refused. It is an error; compare with errors.Is or ==.
type Refusal uint8

// The reasons.
const (
	// BadPeer: the peer has no name.
	BadPeer Refusal = iota
	// BadRTT: the round trip is not positive or above maxRTT.
	BadRTT
	// BadCoordinate: the remote coordinate cannot be (Coordinate.Check).
	BadCoordinate
	// FasterThanLight: the round trip is too short for the distance between the two locations.
	FasterThanLight
)

// Error says the reason in words.
func (r Refusal) Error() string {
	switch r {
	case BadPeer:
		return "peer without a name"
	case BadRTT:
		return "round trip out of range"
	case BadCoordinate:
		return "coordinate out of range"
	case FasterThanLight:
		return "round trip faster than light"
	}
	return "unknown refusal"
}
