package isolate

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/birth"
	"github.com/execbus/execbus/sandbox/internal/confine"
)

// builder collects steps of the first process. A step's name gives its purpose, and a failure is reported under that name.
type builder struct{ steps []birth.Step }

func (b *builder) add(steps ...birth.Step) { b.steps = append(b.steps, steps...) }

// attributes of mounts.
const (
	readOnly = unix.MOUNT_ATTR_RDONLY
	harmless = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
)

// open finds a path without following symbolic links.
func (b *builder) open(what, path string) (fd *birth.Memory) { return b.openWith(what, path, 0) }

// openItself does the same, but if the path itself is a link it opens the link.
func (b *builder) openItself(what, path string) (fd *birth.Memory) {
	return b.openWith(what, path, unix.O_NOFOLLOW)
}

func (b *builder) openWith(what, path string, flags uint64) (fd *birth.Memory) {
	how := birth.Words(unix.O_PATH|unix.O_CLOEXEC|flags, 0, unix.RESOLVE_NO_SYMLINKS)
	fd = birth.NewMemory(0)
	b.add(birth.Call(what, unix.SYS_OPENAT2, birth.Number(unix.AT_FDCWD), birth.Text(path), how, birth.Number(3*8)).Keep(fd, 0))
	return fd
}

// clone copies a mounted tree from one of its directories or files. The copy is not mounted anywhere yet.
func (b *builder) clone(what string, from birth.Operand, path string) (tree *birth.Memory) {
	const flags = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE | unix.AT_EMPTY_PATH
	tree = birth.NewMemory(0)
	b.add(birth.Call(what, unix.SYS_OPEN_TREE, from, birth.Text(path), birth.Number(flags)).Keep(tree, 0))
	return tree
}

// attach mounts a tree on a path below a descriptor; an empty path means the descriptor itself.
func (b *builder) attach(what string, tree *birth.Memory, at birth.Operand, path string) {
	b.add(attached(what, tree, at, path))
}

func attached(what string, tree *birth.Memory, at birth.Operand, path string) birth.Step {
	const flags = unix.MOVE_MOUNT_F_EMPTY_PATH | unix.MOVE_MOUNT_T_EMPTY_PATH
	return birth.Call(what, unix.SYS_MOVE_MOUNT, tree.Word(0), birth.Text(""), at, birth.Text(path), birth.Number(flags))
}

// set adds attributes to a tree.
func (b *builder) set(what string, tree birth.Operand, path string, attributes uint64, flags int, propagation uint64) {
	attr := birth.Words(attributes, 0, propagation, 0)
	b.add(birth.Call(what, unix.SYS_MOUNT_SETATTR, tree, birth.Text(path), birth.Number(flags|unix.AT_EMPTY_PATH), attr,
		birth.Number(unix.MOUNT_ATTR_SIZE_VER0)))
}

// fresh makes a new file system that is not mounted anywhere yet.
func (b *builder) fresh(kind string, attributes int, options ...string) (tree *birth.Memory) {
	fs := birth.NewMemory(0)
	tree = birth.NewMemory(0)
	b.add(birth.Call("open "+kind, unix.SYS_FSOPEN, birth.Text(kind), birth.Number(unix.FSOPEN_CLOEXEC)).Keep(fs, 0))
	for i := 0; i < len(options); i += 2 {
		command, value := unix.FSCONFIG_SET_STRING, birth.Text(options[i+1])
		if options[i+1] == "" {
			command, value = unix.FSCONFIG_SET_FLAG, birth.Number(0)
		}
		b.add(birth.Call("configure "+kind, unix.SYS_FSCONFIG, fs.Word(0), birth.Number(command), birth.Text(options[i]), value, birth.Number(0)))
	}
	b.add(birth.Call("create "+kind, unix.SYS_FSCONFIG, fs.Word(0), birth.Number(unix.FSCONFIG_CMD_CREATE), birth.Number(0), birth.Number(0), birth.Number(0)))
	b.add(birth.Call("mount "+kind, unix.SYS_FSMOUNT, fs.Word(0), birth.Number(unix.FSMOUNT_CLOEXEC), birth.Number(attributes)).Keep(tree, 0))
	return tree
}

// directory makes a directory in a tree.
func (b *builder) directory(tree *birth.Memory, name string, mode int) {
	b.add(birth.Call("mkdir "+name, unix.SYS_MKDIRAT, tree.Word(0), birth.Text(name), birth.Number(mode)))
}

// file makes an empty file in a tree.
func (b *builder) file(tree *birth.Memory, name string, mode int) {
	b.add(birth.Call("make "+name, unix.SYS_MKNODAT, tree.Word(0), birth.Text(name), birth.Number(unix.S_IFREG|mode), birth.Number(0)))
}

func (b *builder) link(tree *birth.Memory, name, to string) {
	b.add(birth.Call("link "+name, unix.SYS_SYMLINKAT, birth.Text(to), tree.Word(0), birth.Text(name)))
}

// check makes the birth fail with EAGAIN if a tree is not the one that the plan found.
func (b *builder) check(what string, tree *birth.Memory, rule confine.Rule) {
	var zero unix.Statx_t
	stat := birth.NewMemory(make([]uint64, unsafe.Sizeof(zero)/8)...)
	b.add(birth.Call(what, unix.SYS_STATX, tree.Word(0), birth.Text(""), birth.Number(unix.AT_EMPTY_PATH), birth.Number(unix.STATX_INO), stat.At(0)))
	for _, field := range []struct {
		offset uintptr
		want   uint32
	}{
		{unsafe.Offsetof(zero.Ino), uint32(rule.Inode)}, {unsafe.Offsetof(zero.Ino) + 4, uint32(rule.Inode >> 32)},
		{unsafe.Offsetof(zero.Dev_major), unix.Major(rule.Device)}, {unsafe.Offsetof(zero.Dev_minor), unix.Minor(rule.Device)},
	} {
		b.add(birth.SameWord(what+": it is not what it was when the policy was set", stat, int(field.offset), field.want))
	}
}
