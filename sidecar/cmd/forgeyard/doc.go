// The command forgeyard is for people and for scripts of runners: it shows who
// holds what and why, ends leases by force, and runs a command under a scope.
//
// The authority is found by a YAML file with address, ca and token_file: flag
// --config, or FORGEYARD_CONFIG. The sidecar of this machine is found by its
// socket: flag --socket, or FORGEYARD_SOCKET.
//
// Guarantees: -o json and -o yaml print what the API answered, field by field;
// an error is one line on standard error that starts with "forgeyard:" and an
// exit code above zero; tokens are never printed.
package main
