// Command api writes docs/openapi.json from the table of the calls that a node answers.
//
//	go run ./scripts/generate/api -o docs/openapi.json
package main

import (
	"encoding/json"

	"proxima/node"
	"proxima/scripts/generate"
)

func main() {
	generate.Main("docs/openapi.json", func() (string, error) {
		text, err := json.MarshalIndent(node.OpenAPI(), "", " ")
		return string(text) + "\n", err
	})
}
