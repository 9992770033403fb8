package writer

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/internal/reexec"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/patch/writer/internal/child"
	"github.com/execbus/execbus/ptyio"
)

// passed are the files that every program gets. They are made once, and stay.
var passed struct {
	sync.Mutex        // starts share them
	greeting, program *os.File
}

// Launch says how the program is started; what confines it and who takes its events is the caller's. The kernel executes the descriptor
// of this program's file, so its path need not be within reach of the sandbox, and the file may have been replaced. The error says why this
// program cannot be executed again.
func Launch() (ptyio.Launch, error) {
	if why := reexec.CannotExecute(); why != "" {
		return ptyio.Launch{}, cannot("this program cannot be executed again: " + why)
	}
	passed.Lock()
	defer passed.Unlock()
	if passed.program == nil {
		if err := open(); err != nil {
			return ptyio.Launch{}, cannot(err.Error())
		}
	}
	return ptyio.Launch{
		Argv:  []string{"/proc/self/fd/" + strconv.Itoa(child.ProgramFD)},
		Argv0: child.Name, Env: environment(), Dir: "/", OpenStdin: true,
		Inherit: []ptyio.Inherited{{FD: child.GreetingFD, File: passed.greeting}, {FD: child.ProgramFD, File: passed.program}},
	}, nil
}

// environment is for the dynamic loader of hosts that are linked with C libraries, and for Go. The program does one thing at a time.
func environment() []string {
	env := []string{"GOMAXPROCS=" + strconv.Itoa(min(2, runtime.NumCPU())), "GOTRACEBACK=single"}
	if path := os.Getenv("LD_LIBRARY_PATH"); path != "" {
		env = append(env, "LD_LIBRARY_PATH="+path)
	}
	return env
}

func open() error {
	program, err := unix.Open(reexec.Self, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return errors.New("this program's file cannot be opened: " + err.Error())
	}
	greeting, err := greet()
	if err != nil {
		_ = unix.Close(program)
		return errors.New("a sealed file cannot be made in memory: " + err.Error())
	}
	passed.program, passed.greeting = os.NewFile(uintptr(program), reexec.Self), os.NewFile(uintptr(greeting), "greeting")
	return nil
}

func greet() (int, error) {
	fd, err := unix.MemfdCreate(child.Name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, err
	}
	_, err = unix.Write(fd, []byte(child.Greeting))
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		_ = unix.Close(fd)
	}
	return fd, err
}

func cannot(why string) error {
	return &messages.Error{Code: messages.ErrUnsupported, Op: "apply patch", Subject: "files", Detail: why + "; files of patches are read and written by it"}
}
