// Package cache is what a sidecar remembers across its own restarts: its
// session, its holds, the receipts of its grants.
//
// # Guarantees
//
//   - What a call has written is durable when it returns; nothing is published
//     before (DESIGN 6.2).
//   - A damaged file is set aside under another name and never panics the
//     process; the receipts, which are the memory of the epochs that this node
//     has seen, lie in a second small file as well (FC-56).
//   - One process has the directory: the lock file's device and inode are what
//     the authority compares at a resume (DESIGN 3, Session 8).
//   - Which journal has the effects of a lease outlives hold and session, until
//     nothing of the lease is owed any more.
//
// Not promised: that a copied directory is noticed here; the authority notices
// (FC-99).
package cache
