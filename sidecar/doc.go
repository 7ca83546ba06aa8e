// Package sidecar assembles the agent that stands beside controllers: cache,
// journal, gate, proxy, keeper, uplink and the local API.
//
// It holds no rule. Config is what a person writes; New checks it and builds
// every part once; Run starts them and ends them in order.
//
// A stop by SIGTERM leaves the holds to the next process, which resumes the
// session within uncertain_after; with ReleaseOnStop they are given back.
package sidecar
