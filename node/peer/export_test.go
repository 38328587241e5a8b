package peer

import "errors"

// Kind says of which kind an error of a call is, "" for none.
func Kind(err error) string {
	var e *callError
	if errors.As(err, &e) {
		return e.kind
	}
	return ""
}
