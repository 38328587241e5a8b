package node

import (
	"context"
	"errors"
	"fmt"

	"proxima/node/peer"
	"proxima/node/runlog"
)

// watchSecret reads the secret file again and again, and changes to what it says. What cannot be read or must not be
// followed changes nothing, and is told once.
func (o *overlay) watchSecret(ctx context.Context) error {
	told := ""
	return every(ctx, peer.SecretEvery, func() {
		err := o.rekey()
		switch {
		case err == nil:
			told = ""
		case err.Error() != told:
			told = err.Error()
			o.node.warn(err)
		}
	})
}

// rekey takes the secret file over if it has changed.
func (o *overlay) rekey() error {
	next, err := peer.Load(o.cfg.Peer.Secret)
	if err != nil {
		return fmt.Errorf("the secret stays as it was: %w", err)
	}
	now := o.secret.Load()
	if now.Equal(next) {
		return nil
	}
	if err := now.Follow(next); err != nil {
		return fmt.Errorf("the secret stays as it was: %s: %w; proxima keygen -rotate has the steps, and a restart takes the file as it is",
			o.cfg.Peer.Secret, err)
	}
	keys, err := next.GossipKeys()
	if err != nil {
		return err
	}
	if err := errors.Join(o.members.Rekey(keys), o.server.Rekey(next), o.client.Rekey(next), o.signWith(next)); err != nil {
		return err
	}
	o.secret.Store(next)
	o.node.runlog.Events().Info(runlog.EventSecret, runlog.KeyReason, next.Describe())
	return nil
}

// signWith has requests to web servers signed with the key of a secret, where the configuration wants them signed.
func (o *overlay) signWith(secret *peer.Secret) error {
	keys, err := secret.SiteKeys()
	if err != nil {
		return err
	}
	return o.node.client.SetKey(keys[0])
}
