package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"proxima/fetch"
	"proxima/fetch/sign"
	"proxima/node/member"
	"proxima/node/peer"
	"proxima/node/runlog"
)

// secrets follows the secret file of a node.
type secrets struct {
	path    string
	current atomic.Pointer[peer.Secret]
	web     *fetch.Client
	members *member.Members
	server  *peer.Server
	client  *peer.Client
	runlog  *runlog.Writer
}

// watch reads the secret file again and again, and changes to the secret that it has. If the file cannot be read or followed, the secret
// stays, and warn is called once.
func (s *secrets) watch(ctx context.Context, warn func(error)) error {
	warned := ""
	return every(ctx, peer.SecretEvery, func() {
		err := s.follow()
		switch {
		case err == nil:
			warned = ""
		case err.Error() != warned:
			warned = err.Error()
			warn(err)
		}
	})
}

// follow changes to the secret in the file, if it is another one.
func (s *secrets) follow() error {
	next, err := peer.Load(s.path)
	if err != nil {
		return fmt.Errorf("the secret stays as it was: %w", err)
	}
	now := s.current.Load()
	if now.Equal(next) {
		return nil
	}
	if err := now.Follow(next); err != nil {
		return fmt.Errorf("the secret stays as it was: %s: %w; proxima keygen -rotate has the steps, and a restart takes the file as it is", s.path, err)
	}
	if err := errors.Join(s.members.Rekey(next.GossipKeys()), s.server.Rekey(next), s.client.Rekey(next), s.sign(next)); err != nil {
		return err
	}
	s.current.Store(next)
	s.runlog.Events().Info(runlog.EventSecret, runlog.KeyReason, next.Describe())
	return nil
}

// sign signs the requests to web servers with a key of the secret, if the configuration wants them signed.
func (s *secrets) sign(secret *peer.Secret) error {
	return s.web.SetKey(secret.SiteKeys()[0])
}

// Directory returns the directory of the keys that sign an overlay's requests. path is the secret file.
func Directory(path string) ([]byte, error) {
	secret, err := peer.Load(path)
	if err != nil {
		return nil, err
	}
	return sign.Directory(secret.SiteKeys())
}
