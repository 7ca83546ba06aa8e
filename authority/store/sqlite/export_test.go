package sqlite

// Waited counts the transactions that ever had to wait for the one writer.
func (s *Store) Waited() int64 { return s.write.Stats().WaitCount }
