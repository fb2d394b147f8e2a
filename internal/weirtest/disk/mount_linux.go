package disk

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Volume is a device with a mounted ext4 on it.
type Volume struct {
	// Dir is where it is mounted.
	Dir string

	share  string
	remove func() error
}

// Drive is a device with a volume on it, which can be mounted again.
type Drive struct {
	*Device
	*Volume

	folder string
}

// NewDrive makes one of so many bytes and mounts it below a folder.
func NewDrive(folder string, size int64) (d *Drive, err error) {
	d = &Drive{folder: folder}
	if d.Device, err = Format(folder, size); err == nil {
		err = d.Mount()
	}
	return d, err
}

// Mount mounts the device as it is now.
func (d *Drive) Mount() (err error) {
	d.Volume, err = Mount(d.Device, d.folder)
	return err
}

// Format makes a device with an empty ext4 on it. It needs a folder for the image.
func Format(dir string, size int64) (*Device, error) {
	path := filepath.Join(dir, "ext4.img")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return nil, err
	}
	if err := os.Truncate(path, size); err != nil {
		return nil, err
	}
	defer os.Remove(path)
	out, err := exec.Command("mkfs.ext4", "-q", "-F", "-b", "4096", //nolint:noctx // it is short
		"-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", path).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("mkfs.ext4: %w: %s", err, out)
	}
	return Load(path)
}

// Mount shows the device to the kernel and mounts the ext4 on it below dir; a file system
// that was cut off is repaired from its journal first, by the kernel.
func Mount(dev *Device, dir string) (v *Volume, err error) {
	v = &Volume{Dir: filepath.Join(dir, "volume"), share: filepath.Join(dir, "share")}
	for _, d := range []string{v.Dir, v.share} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	path, remove, err := share(dev, v.share)
	if err != nil {
		return nil, fmt.Errorf("fuse: %w", err)
	}
	v.remove = remove
	loop, err := attach(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("loop device: %w", err), remove())
	}
	// The kernel detaches the loop device when its last user is gone: the mount.
	defer loop.Close()
	if err := unix.Mount(loop.Name(), v.Dir, "ext4", 0, ""); err != nil {
		return nil, errors.Join(fmt.Errorf("mount: %w", err), loop.Close(), remove())
	}
	return v, nil
}

// attach makes a loop device of a file.
func attach(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("/dev/loop%d", n)
		loop, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		err = unix.IoctlLoopConfigure(int(loop.Fd()), &unix.LoopConfig{
			Fd: uint32(file.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}, //nolint:gosec // a descriptor is small
		})
		if err == nil {
			return loop, nil
		}
		err = errors.Join(err, loop.Close())
		if !errors.Is(err, unix.EBUSY) { // somebody else was quicker: take another
			return nil, err
		}
	}
}

// Unmount takes the volume away. Whoever had a file of it open must be gone, or be about
// to go.
func (v *Volume) Unmount() error {
	const patience = 10 * time.Second
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if err = unix.Unmount(v.Dir, 0); !errors.Is(err, unix.EBUSY) {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	return errors.Join(err, v.remove())
}

// Fill writes a file until no more than so many bytes are left on its disk; 0 is nothing at all, also
// of what is reserved for root.
func Fill(path string, room int64) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for chunk := make([]byte, 1<<20); len(chunk) > 0; {
		var fs unix.Statfs_t
		if err := unix.Statfs(path, &fs); err != nil {
			return err
		}
		if left := int64(fs.Bavail)*fs.Bsize - room; room > 0 { //nolint:gosec // a disk is no larger
			chunk = chunk[:max(0, min(int64(len(chunk)), left))]
		}
		if _, err := f.Write(chunk); errors.Is(err, unix.ENOSPC) {
			chunk = chunk[:len(chunk)/2]
		} else if err != nil {
			return err
		}
	}
	_ = f.Sync() // there may be no room for it
	return nil
}
