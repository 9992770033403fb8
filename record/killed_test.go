package record_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/execbus/execbus/bus"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/record"
)

// enough is how many numbers are recorded before a host is killed.
const enough = 5000

// recordsInto makes this program a host that records numbers in a file, until it is killed.
const recordsInto = "EXECBUS_TEST_RECORDS_INTO"

// A host that is killed leaves a recording that is read to its last whole event: the beginning of what happened, in order.
func TestAHostThatIsKilledLeavesARecordingThatCanBeRead(t *testing.T) {
	if name := os.Getenv(recordsInto); name != "" {
		recordNumbers(t, name)
		return
	}
	name := filepath.Join(t.TempDir(), "a.cast")
	host := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	host.Env = append(os.Environ(), recordsInto+"="+name)
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	_, said := bufio.NewReader(out).ReadString('\n') // it goes on recording
	_ = host.Process.Kill()
	if err := host.Wait(); said != nil || host.ProcessState.Exited() {
		t.Fatalf("the host ended before it was killed: %v", err)
	}
	header, events := read(t, open(t, name))
	if header.Command != "numbers" || len(events) < enough/2 {
		t.Errorf("%+v and %d events", header, len(events))
	}
	number := 0
	for _, e := range events {
		if e.Code == record.Output {
			if e.Data != fmt.Sprintf("%d\r\n", number) {
				t.Fatalf("event %d is %q", number, e.Data)
			}
			number++
		}
	}
}

func recordNumbers(t *testing.T, name string) {
	r, err := record.New(record.Options{File: name})
	if err != nil {
		t.Fatal(err)
	}
	b := bus.New(bus.Options{})
	s, err := b.Subscribe(bus.Filter{}, bus.SubscribeOptions{Lossless: true})
	if err != nil {
		t.Fatal(err)
	}
	go r.Follow(t.Context(), s)
	b.Publish(messages.ExecStarted{Origin: origin(1000, 0), Argv: []string{"numbers"}})
	for number := 0; ; number++ {
		b.Publish(messages.OutputDelta{Origin: origin(1000, time.Duration(number)*time.Microsecond), Stream: messages.StreamStdout, Bytes: fmt.Appendf(nil, "%d\n", number)})
		if number%100 == 99 { // the recorder is to fall behind by no more
			for info, err := os.Stat(name); err == nil && info.Size() < int64(number)*20; info, err = os.Stat(name) {
				time.Sleep(time.Millisecond)
			}
		}
		if number == enough {
			fmt.Println("enough")
		}
	}
}
