//go:build !linux

package testbed

import (
	"context"
	"errors"
)

func newNamespaces(context.Context, *Plan, string, string, func(string, ...any), func(error)) (platform, error) {
	return nil, errors.New("network namespaces need Linux")
}
