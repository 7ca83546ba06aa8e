package chaos_test

import (
	"context"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// slowDisk is a file system that passes everything on to a directory, and
// takes its time over every fsync when told to.
type slowDisk struct {
	server *fuse.Server
	delay  atomic.Int64 // of an fsync, in nanoseconds
}

// mountSlowDisk shows the directory backing at the directory at.
func mountSlowDisk(backing, at string) (*slowDisk, error) {
	d := &slowDisk{}
	var stat syscall.Stat_t
	if err := syscall.Stat(backing, &stat); err != nil {
		return nil, err
	}
	root := &slowNode{disk: d, LoopbackNode: &fs.LoopbackNode{RootData: &fs.LoopbackRoot{Path: backing, Dev: uint64(stat.Dev)}}}
	root.RootData.RootNode = root
	var err error
	d.server, err = fs.Mount(at, root, &fs.Options{MountOptions: fuse.MountOptions{DirectMount: true, Name: "slowdisk"}})
	return d, err
}

func (d *slowDisk) unmount() {
	d.delay.Store(0)
	_ = d.server.Unmount() // busy while a process has files open: the namespace ends it
}

// slowNode delays what a process waits for when it wants to be sure.
type slowNode struct {
	*fs.LoopbackNode
	disk *slowDisk
}

var (
	_ fs.NodeFsyncer     = (*slowNode)(nil)
	_ fs.NodeWrapChilder = (*slowNode)(nil)
)

// WrapChild implements fs.NodeWrapChilder.
func (n *slowNode) WrapChild(_ context.Context, ops fs.InodeEmbedder) fs.InodeEmbedder {
	loopback, ok := ops.(*fs.LoopbackNode)
	if !ok {
		return ops
	}
	return &slowNode{LoopbackNode: loopback, disk: n.disk}
}

// Fsync implements fs.NodeFsyncer.
func (n *slowNode) Fsync(ctx context.Context, f fs.FileHandle, flags uint32) syscall.Errno {
	if d := time.Duration(n.disk.delay.Load()); d > 0 {
		pause(ctx, d)
	}
	if h, ok := f.(fs.FileFsyncer); ok {
		return h.Fsync(ctx, flags)
	}
	return fs.OK
}
