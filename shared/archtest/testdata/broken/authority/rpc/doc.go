// Package rpc is a door that reaches too far.
package rpc

import (
	_ "example.test/broken/authority/store/postgres"
	_ "example.test/broken/sidecar/gate"
	_ "github.com/jackc/pgx/v5/pgxpool"
)
