// Package authority assembles the central service: it opens the store, starts
// the engine and the sweeper, and serves sidecars, people and operators.
//
// Guarantees: nothing is served before the store has enlisted this process; a
// stop answers what is in flight, closes the tunnels, and closes the store
// last; /readyz is false before serving, while stopping, and while the store
// acknowledges nothing.
//
// It holds no logic of its own; Config.Validate is the one place that relates
// the figures of a configuration to each other.
package authority
