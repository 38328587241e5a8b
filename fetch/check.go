package fetch

import (
	"errors"
	"net/netip"
)

// Check says whether an address may be dialled, before anything is: the class is ForbiddenAddress, NoIdentity or OK.
// Get checks again, on the address dialled.
func (c *Client) Check(addr netip.Addr) (Class, error) {
	err := c.guard.check(addr)
	if f, ok := errors.AsType[*failure](err); ok {
		return f.class, err
	}
	return OK, nil
}
