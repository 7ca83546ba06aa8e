// Command forgeyard-sidecar is the agent beside controllers and runners.
//
//	forgeyard-sidecar run --config FILE           serve until SIGTERM
//	forgeyard-sidecar check-config --config FILE  print OK or every problem
//	forgeyard-sidecar status --socket PATH        what it knows, as JSON
package main
