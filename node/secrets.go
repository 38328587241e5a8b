package node

import (
	"errors"
	"fmt"
	"sync/atomic"

	"proxima/fetch/sign"
	"proxima/node/peer"
	"proxima/node/runlog"
)

// secrets follows the secret file of a node.
type secrets struct {
	overlay *overlay
	current atomic.Pointer[peer.Secret]
}

// follow changes to the secret in the file, if it is another one. If the file cannot be read or followed, the secret stays.
func (s *secrets) follow() error {
	o := s.overlay
	path := o.node.cfg.Peer.Secret
	next, err := peer.Load(path)
	if err != nil {
		return fmt.Errorf("the secret stays as it was: %w", err)
	}
	now := s.current.Load()
	if now.Equal(next) {
		return nil
	}
	if err := now.Follow(next); err != nil {
		return fmt.Errorf("the secret stays as it was: %s: %w; proxima keygen -rotate has the steps, and a restart takes the file as it is", path, err)
	}
	if err := errors.Join(o.members.Rekey(next.GossipKeys()), o.server.Rekey(next), o.client.Rekey(next), s.sign(next)); err != nil {
		return err
	}
	s.current.Store(next)
	o.node.runlog.Events().Info(runlog.EventSecret, runlog.KeyReason, next.Describe())
	return nil
}

// sign signs the requests to web servers with a key of the secret, if the configuration wants them signed.
func (s *secrets) sign(secret *peer.Secret) error {
	return s.overlay.node.client.SetKey(secret.SiteKeys()[0])
}

// Directory returns the directory of the keys that sign an overlay's requests. path is the secret file.
func Directory(path string) ([]byte, error) {
	secret, err := peer.Load(path)
	if err != nil {
		return nil, err
	}
	return sign.Directory(secret.SiteKeys())
}
