// Package relay is a TCP relay that misbehaves when told to: it delays, goes
// silent one way or both ways, cuts connections, loses the answers of a server
// after they were given, and changes its target.
//
// It stands between two real processes where a test cannot touch the network
// itself. Silence is a connection that stays open and carries nothing, as
// dropped packets look to both ends.
package relay
