package child

import (
	"bufio"
	"errors"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() {
	if len(os.Args) == 0 || os.Args[0] != Name {
		return
	}
	if err := checkGreeting(); err != nil {
		_, _ = os.Stderr.WriteString(Name + ": not started by execbus: " + err.Error() + "\n")
		unix.Exit(127)
	}
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&append([]byte(Name), 0)[0])), 0, 0, 0) // it says "4"
	if err := serve(bufio.NewReaderSize(os.Stdin, 64<<10), os.Stdout); err != nil {
		_, _ = os.Stderr.WriteString(Name + ": " + err.Error() + "\n")
		unix.Exit(1)
	}
	unix.Exit(0) // os.Exit waits for a second in a program that was built with the race detector
}

// seals of the greeting. Its maker cannot change it any more.
const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE

// checkGreeting says why this process is not a writer. It closes what was passed.
func checkGreeting() error {
	if unix.Getuid() != unix.Geteuid() || unix.Getgid() != unix.Getegid() {
		return errors.New("this executable gives rights")
	}
	var text [len(Greeting)]byte
	got, err := unix.FcntlInt(GreetingFD, unix.F_GET_SEALS, 0)
	if err != nil || got&seals != seals {
		return errors.New("descriptor 3 is not a sealed file")
	}
	if n, err := unix.Pread(GreetingFD, text[:], 0); err != nil || string(text[:n]) != Greeting {
		return errors.New("the greeting on descriptor 3 is not that of this version")
	}
	_, _ = unix.Close(GreetingFD), unix.Close(ProgramFD)
	return nil
}

// serve answers requests until their end.
func serve(r io.Reader, w io.Writer) error {
	t, total := &transaction{}, 0
	for {
		var request Request
		if err := Receive(r, &request); err == io.EOF {
			return nil
		} else if err != nil {
			return errors.New("cannot read the request: " + err.Error())
		}
		var reply Reply
		switch {
		case request.Read != nil:
			if err := read(request.Read, func(file *File) error { return Send(w, Reply{File: file}) }); err != nil {
				return err
			}
			continue
		case request.Change != nil:
			c := request.Change
			if err := c.Check(); err != nil {
				return err
			}
			if total += len(c.Old) + len(c.New); total > MaxTotal || len(t.changes) == MaxChanges {
				return errors.New("the changes are more than the bound")
			}
			t.changes = append(t.changes, c)
			continue
		case request.Prepare != nil:
			t.protect(request.Prepare.Protected)
			if reply.Prepared, reply.Failed = t.prepare(); reply.Failed != nil {
				t, total = &transaction{}, 0
			}
		case request.Commit:
			reply.Report = t.commit()
			t, total = &transaction{}, 0
		case request.Recover != nil:
			t.made = request.Recover.Made
			t.protect(request.Recover.Protected)
			if t.made != nil && len(t.made) != len(t.changes) {
				return errors.New("the request does not fit the changes")
			}
			for i, made := range t.made {
				t.changes[i].Stamp.ID = made.Old
			}
			reply.Report = t.settle(undecided)
			t, total = &transaction{}, 0
		default:
			return errors.New("the request is empty")
		}
		if err := Send(w, reply); err != nil {
			return errors.New("cannot answer: " + err.Error())
		}
	}
}
