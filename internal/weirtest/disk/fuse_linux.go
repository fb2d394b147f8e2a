package disk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// imageName is the one file of the file system that shows a device to the kernel.
const imageName = "image"

// folder is that file system's root.
type folder struct {
	fs.Inode
	dev *Device
}

var _ fs.NodeOnAdder = (*folder)(nil)

func (f *folder) OnAdd(ctx context.Context) {
	file := f.NewPersistentInode(ctx, &image{dev: f.dev}, fs.StableAttr{Mode: syscall.S_IFREG})
	f.AddChild(imageName, file, false)
}

// image is a device as a file. It is never cached, so that the device's own cache is the
// only one between a loop device and what survives.
type image struct {
	fs.Inode
	dev *Device
}

var (
	_ fs.NodeGetattrer = (*image)(nil)
	_ fs.NodeSetattrer = (*image)(nil)
	_ fs.NodeOpener    = (*image)(nil)
	_ fs.NodeReader    = (*image)(nil)
	_ fs.NodeWriter    = (*image)(nil)
	_ fs.NodeFsyncer   = (*image)(nil)
)

func (i *image) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode = syscall.S_IFREG | 0o600
	out.Size = uint64(i.dev.Size()) //nolint:gosec // a size is not negative
	return 0
}

func (i *image) Setattr(ctx context.Context, h fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return i.Getattr(ctx, h, out)
}

func (i *image) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

func (i *image) Read(_ context.Context, _ fs.FileHandle, p []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	p = p[:max(0, min(int64(len(p)), i.dev.Size()-at))]
	if i.dev.Read(p, at) != nil {
		return nil, syscall.EIO
	}
	return fuse.ReadResultData(p), 0
}

func (i *image) Write(_ context.Context, _ fs.FileHandle, p []byte, at int64) (uint32, syscall.Errno) {
	if i.dev.Write(p, at) != nil {
		return 0, syscall.EIO
	}
	return uint32(len(p)), 0 //nolint:gosec // a request is small
}

func (i *image) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	if i.dev.Flush() != nil {
		return syscall.EIO
	}
	return 0
}

// share mounts a file system with the device as its one file, and returns that file's path
// and what takes it away.
func share(dev *Device, dir string) (path string, remove func() error, err error) {
	server, err := fs.Mount(dir, &folder{dev: dev}, &fs.Options{MountOptions: fuse.MountOptions{
		DirectMountStrict: true, FsName: "weirtest", MaxBackground: 64,
	}})
	if err != nil {
		return "", nil, err
	}
	remove = func() error {
		// The loop device may hold the file for a moment longer.
		err := unix.Unmount(dir, unix.MNT_DETACH)
		if err == nil {
			server.Wait()
		}
		return err
	}
	if err := keepToSelf(); err != nil {
		return "", nil, errors.Join(err, remove())
	}
	return filepath.Join(dir, imageName), remove, nil
}

// keepToSelf has no child inherit the connection to the kernel: the file system ends with
// the process that serves it only if nobody else holds it.
func keepToSelf() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && to == "/dev/fuse" {
			fd, err := strconv.Atoi(e.Name())
			if err != nil {
				return err
			}
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
