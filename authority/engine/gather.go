package engine

// gather returns the next batch: one item at least, then whatever has queued
// up, without waiting. Items whose key is in the batch already stay behind,
// first in line for the next one. It returns nothing when the queue is closed
// and empty.
func gather[T any](queue <-chan T, behind []T, limit int, key func(T) string) (batch, rest []T) {
	taken := make(map[string]bool, limit)
	put := func(item T) {
		if k := key(item); len(batch) >= limit || (k != "" && taken[k]) {
			rest = append(rest, item)
		} else {
			taken[k] = true
			batch = append(batch, item)
		}
	}
	for _, item := range behind {
		put(item)
	}
	if len(batch) == 0 {
		first, ok := <-queue
		if !ok {
			return nil, nil
		}
		put(first)
	}
	for len(batch) < limit && len(rest) < limit {
		select {
		case item, ok := <-queue:
			if !ok {
				return batch, rest
			}
			put(item)
		default:
			return batch, rest
		}
	}
	return batch, rest
}
