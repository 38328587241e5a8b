package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPublicConfigHoldsNoSecrets(t *testing.T) {
	c := Default()
	c.Blocklist.Sources = []string{"https://me:hunter2@lists.example/a?x=1", "https://hunter3@lists.example/b",
		"https://lists.example/c?api_key=hunter4&size=9&access_token=hunter5#hunter", "/etc/list@home"}
	c.Peer.Secret = "/etc/proxima/secret"
	text := c.Public()
	for _, secret := range []string{"hunter2", "hunter3", "hunter4", "hunter5"} {
		if strings.Contains(text, secret) {
			t.Errorf("the configuration tells %s", secret)
		}
	}
	for _, kept := range []string{"https://xxxxx@lists.example/a?x=1", "https://lists.example/c?api_key=xxxxx&size=9&access_token=xxxxx#hunter",
		"/etc/list@home", "/etc/proxima/secret"} {
		if !strings.Contains(text, kept) {
			t.Errorf("the configuration does not tell %s", kept)
		}
	}
	if d := Default(); d.Public() != d.Text() {
		t.Error("the default configuration is changed")
	}
}

func TestExposedFilesAreNamed(t *testing.T) {
	data := filepath.Join(t.TempDir(), "a[1") // as a pattern, it is none
	logs, store := filepath.Join(data, "logs"), filepath.Join(data, "frontier")
	for _, dir := range []string{data, logs, store} {
		must(t, os.Mkdir(dir, 0o700))
	}
	old := filepath.Join(logs, "fetch.jsonl")
	must(t, os.WriteFile(old, nil, 0o600))
	if err := exposed(data, logs); err != nil {
		t.Error(err)
	}
	for _, path := range []string{logs, old, store} {
		must(t, os.Chmod(path, 0o755))
	}
	if err := exposed(data, logs); err == nil || !strings.Contains(err.Error(), "chmod -R o= "+store+" "+logs) {
		t.Errorf("%v", err)
	}
}
