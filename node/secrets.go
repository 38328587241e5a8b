package node

import (
	"errors"
	"fmt"

	"proxima/fetch/sign"
	"proxima/node/peer"
	"proxima/node/runlog"
)

// followSecret changes to the secret in the file, if it is another one. If the file cannot be read or followed, the secret stays.
func (o *overlay) followSecret() error {
	path := o.node.cfg.Peer.Secret
	next, err := peer.Load(path)
	if err != nil {
		return fmt.Errorf("the secret stays as it was: %w", err)
	}
	now := o.secret.Load()
	if now.Equal(next) {
		return nil
	}
	if err := now.Follow(next); err != nil {
		return fmt.Errorf("the secret stays as it was: %s: %w; proxima keygen -rotate has the steps, and a restart takes the file as it is", path, err)
	}
	if err := errors.Join(o.members.Rekey(next.GossipKeys()), o.server.Rekey(next), o.client.Rekey(next), o.node.client.SetKey(next.SiteKeys()[0])); err != nil {
		return err
	}
	o.secret.Store(next)
	o.node.runlog.Events().Info(runlog.EventSecret, runlog.KeyReason, next.Describe())
	return nil
}

// Directory returns the directory of the keys that sign an overlay's requests. path is the secret file.
func Directory(path string) ([]byte, error) {
	secret, err := peer.Load(path)
	if err != nil {
		return nil, err
	}
	return sign.Directory(secret.SiteKeys())
}
