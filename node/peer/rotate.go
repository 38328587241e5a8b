package peer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Rotate takes a secret file one step further towards a new secret, and returns what to do next. Nodes at neighbouring
// steps understand each other, so the file may reach them one by one:
//
//  1. A new secret is added. Nodes accept it and use the old one.
//  2. The two change places. Nodes use the new one and accept the old one.
//  3. The old one is dropped.
func Rotate(path string) (next string, err error) {
	// Replace the file, not a link to it.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", fmt.Errorf("find secret file: %w", err)
	}
	s, err := Load(path)
	if err != nil {
		return "", err
	}
	var step string
	switch {
	case len(s.keys) == 1:
		s = &Secret{keys: [][32]byte{s.keys[0], newKey()}, mark: markNext}
		step = "Step 1 of 3: a new secret is accepted, and not used yet."
	case s.mark == markNext:
		s = &Secret{keys: [][32]byte{s.keys[1], s.keys[0]}, mark: markOld}
		step = "Step 2 of 3: the new secret is used, and the old one still accepted."
	default:
		s = NewSecret(s.keys[0])
		step = "Step 3 of 3: the old secret is dropped."
	}
	if err := replace(path, s.text()); err != nil {
		return "", err
	}
	step += fmt.Sprintf(`
Now copy %s to every node. Running nodes read it within %v, without a stop; then
"proxima status" says there: secret %s
`, path, SecretEvery, s.Describe())
	if s.mark == "" {
		return step + "A node that does not get the file is shut out from then on. That is all.\n", nil
	}
	return step + `When all nodes say so, and no sooner, run this again for the next step. A node that is away
meanwhile needs the file before it comes back.
`, nil
}

// replace replaces a file in one step: after a crash it is either the old one or the new one. Its owner stays the same: root may take a step
// for a node that runs as another user.
func replace(path string, text []byte) error {
	var was unix.Stat_t
	if err := unix.Stat(path, &was); err != nil {
		return fmt.Errorf("look at secret file %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // nobody else may read it
	if err != nil {
		return fmt.Errorf("make secret file: %w", err)
	}
	_, err = f.Write(text)
	if os.Geteuid() == 0 {
		err = errors.Join(err, f.Chown(int(was.Uid), int(was.Gid)))
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write secret file %s: %w", path, err), os.Remove(f.Name()))
	}
	return nil
}
