//go:build !linux

package testbed

import (
	"context"
	"errors"
)

func newNamespaces(context.Context, *run, string, func(error)) (platform, error) {
	return nil, errors.New("network namespaces need Linux")
}
