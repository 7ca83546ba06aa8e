// The program demo tells the main job end to end: a deployer that was paused
// wakes up after a newer one has taken over, and can neither write nor delete
// (FC-60); then the authority goes away and comes back.
//
//	demo -bin bin              the story, in a temporary directory
//	demo -bin bin -dir .run up      leave a stack running
//	demo -dir .run down        end it
//
// Guarantees: it exits 0 only when everything it tells was observed; it leaves
// no process and no file behind, except when it fails: then it names the
// directory with the logs.
package main
