// Command api writes docs/openapi.json from the table of the calls that a node answers.
//
//	go run ./scripts/generate/api -o docs/openapi.json
package main

import (
	"encoding/json"
	"flag"
	"log"
	"os"

	"proxima/node"
)

func main() {
	out := flag.String("o", "docs/openapi.json", "file to write")
	flag.Parse()
	text, err := json.MarshalIndent(node.OpenAPI(), "", " ")
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(*out, append(text, '\n'), 0o644); err != nil {
		log.Fatal(err)
	}
}
