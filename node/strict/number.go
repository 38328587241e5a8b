package strict

import (
	"fmt"
	"strconv"
	"strings"
)

// NotNumber says what is wrong with a text that is no value of a flag for a number.
func NotNumber(text string) string {
	if _, err := strconv.ParseFloat(text, 64); err != nil {
		return fmt.Sprintf("%q is not a number", text)
	}
	if strings.Trim(text, "0123456789") == "" {
		return fmt.Sprintf("%q is too large", text)
	}
	return fmt.Sprintf("%q is not a whole number in plain digits", text)
}
