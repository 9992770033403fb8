package attack

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// legacyCall makes the 32-bit system call getpid, in machine code: mov eax, 20; int 0x80; mov [answer], rax; ret.
func legacyCall() error {
	code, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	answer := new(uint64)
	text := []byte{0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0x48, 0xa3}
	text = binary.LittleEndian.AppendUint64(text, uint64(uintptr(unsafe.Pointer(answer))))
	copy(code, append(text, 0xc3))
	if err := unix.Mprotect(code, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		return err
	}
	entry := &code[0]
	closure := &entry
	(*(*func())(unsafe.Pointer(&closure)))()
	if int(int32(*answer)) < 0 {
		return unix.Errno(-int32(*answer))
	}
	if int(*answer) != unix.Getpid() {
		return fmt.Errorf("it answered %d", *answer)
	}
	return nil
}
