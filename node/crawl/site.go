package crawl

import (
	"fmt"
	"time"

	"proxima/fetch"
	"proxima/node/site"
)

// customize makes a request as its site wants it.
func (l *Loop) customize(req *fetch.Request, s *site.Settings) {
	if s.Hours != nil {
		gate := req.Gate
		req.Gate = func() error {
			if !s.Hours.Open(time.Now()) {
				return fmt.Errorf("outside its hours, %s", s.Hours)
			}
			if gate == nil {
				return nil
			}
			return gate()
		}
	}
}
