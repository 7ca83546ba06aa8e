// Package effect holds the records of outgoing calls and the pure rules about
// their outcome (DESIGN 3, External effect; 6.4).
//
// An effect is Started durably before its first byte leaves. What nobody
// observed is Unknown, and Unknown never becomes a new execution by itself
// (I7). Not promised: exactly-once effects.
package effect
