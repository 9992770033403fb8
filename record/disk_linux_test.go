package record_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/record"
)

// A bound on the size of files stands for a full disk: a write takes what fits, and then fails.
func TestAFullDiskEndsARecordingBehindItsLastWholeLineAndSaysSoOnce(t *testing.T) {
	const room = 10_000
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Skip(err)
	}
	less := before
	less.Cur = room
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &less); err != nil {
		t.Skip(err)
	}
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before) }()
	dir := t.TempDir()
	events := []messages.Event{}
	for p := range messages.ProcessID(2) {
		one := life(1000+p, true)
		events = append(events, one[:4]...)
		for i := range 100 {
			events = append(events, messages.OutputDelta{Origin: origin(1000+p, time.Duration(i)), Stream: messages.StreamPTY, Bytes: []byte(strings.Repeat("x", 300))})
		}
		events = append(events, one[len(one)-1])
	}
	notices := recorded(t, record.Options{Dir: dir}, events...)
	if len(notices) != 1 || !strings.Contains(notices[0], "a recording is not complete") {
		t.Errorf("%q", notices)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.cast"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || len(text) > room || len(text) < room-1000 || text[len(text)-1] != '\n' {
			t.Errorf("%d bytes, %v", len(text), err)
		}
		if _, events := read(t, open(t, file)); len(events) < 10 {
			t.Errorf("%d events", len(events))
		}
	}
	if len(files) != 2 {
		t.Errorf("%q", files)
	}
}
