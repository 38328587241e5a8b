// Command generate writes those files of the repository that are made from its code. Run it from the root of the repository:
//
//	go run ./scripts/generate
package main

import (
	"encoding/json"
	"log"
	"os"

	"proxima/node"
)

// files returns what makes each file.
func files() map[string]func() (string, error) {
	return map[string]func() (string, error){"node/default.toml": config, "docs/logs.md": logs, "docs/openapi.json": api}
}

func main() {
	for file, generate := range files() {
		text, err := generate()
		if err == nil {
			err = os.WriteFile(file, []byte(text), 0o644)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
}

// api makes the description of the calls that a node answers.
func api() (string, error) {
	text, err := json.MarshalIndent(node.OpenAPI(), "", " ")
	return string(text) + "\n", err
}
