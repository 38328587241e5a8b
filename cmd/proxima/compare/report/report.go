// Package report turns the figures of a comparison into one HTML page that needs nothing else: no network, no fonts, no files.
// It owns how figures are shown: words, tables, plots, colours. It does not own the figures: whoever reads the logs fills Data.
package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
)

//go:embed page.html
var pageText string

//go:embed page.css
var styleText string

//go:embed page.js
var scriptText string

// Write writes the page. It may be called concurrently. Errors are those of w.
func Write(w io.Writer, d Data) error {
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return fmt.Errorf("parse the page of the report: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, newPage(d, styleText, strings.TrimSpace(scriptText))); err != nil {
		return fmt.Errorf("fill the page of the report: %w", err)
	}
	if _, err := io.WriteString(w, harmless(b.String())); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
