// Package clock reads the clocks of this machine and hands them to loops.
//
// Rules take time as an argument; loops take a Clock. Boot is CLOCK_BOOTTIME:
// it counts while the machine sleeps and no one can set it, so every deadline
// that the sidecar trusts is compared with it. Timers run on Go's monotonic
// clock, which stops during sleep: they wake a loop up, they decide nothing
// (DESIGN 4.4).
//
// WatchSteps says at once that the wall clock was set or the machine woke up, so
// that nobody waits for a timer to compare the clocks (TestFC24_AStepOfTheWallClockIsNoticedAtOnce).
//
// Not promised: that boottime counts a pause of the hypervisor.
package clock
