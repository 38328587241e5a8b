// Package generate has what the commands below it share: they generate files of the repository from its code.
package generate

import (
	"flag"
	"fmt"
	"log"
	"os"
)

// Main parses the flags and writes what generate makes to the file that -o names, by default this one; "" is standard output.
func Main(file string, generate func() (string, error)) {
	out := flag.String("o", file, "`file` to write; empty for standard output")
	flag.Parse()
	text, err := generate()
	if err != nil {
		log.Fatal(err)
	}
	if *out == "" {
		fmt.Print(text)
	} else if err := os.WriteFile(*out, []byte(text), 0o644); err != nil {
		log.Fatal(err)
	}
}
