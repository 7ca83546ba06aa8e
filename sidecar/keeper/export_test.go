package keeper

// StallDisk makes every durable write wait until resume is called.
func (k *Keeper) StallDisk() (resume func()) {
	stalled := make(chan struct{})
	k.disk.put(func() { <-stalled })
	return func() { close(stalled) }
}
