package rpc_test

import "github.com/forgeyard/concurrency/shared/epoch"

func epochOf(v uint64) epoch.Epoch { return epoch.Epoch(v) }
