// Package sqlite is the embedded store: one file, one writer, one process.
//
// Times are stored as whole microseconds since 1970 in UTC and zero for "none",
// durations as microseconds, epochs as integers. The file is in WAL mode with
// synchronous=FULL; a commit that was answered survives kill -9 and power loss
// as far as the disk keeps its word.
//
// # Guarantees
//
//   - those of package store;
//   - a second process on the file is refused with store.ErrLocked;
//   - a copy of the file that was put back is noticed: the outside memory, a
//     small file in another directory, keeps the highest incarnation and
//     generation that were ever in use, and every start raises the generation
//     above both (DESIGN 5.6).
//
// Not promised: notice of a rollback of the file and the outside memory
// together (DESIGN 2).
package sqlite
