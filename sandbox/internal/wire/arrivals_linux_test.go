package wire

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Room in the socket must wake nobody who does not wait for it.
func TestThePollerWatchesASocketForArrivalsOnly(t *testing.T) {
	_, b := pair(t, 0)
	var socket uintptr
	if err := b.raw.Control(func(fd uintptr) { socket = fd }); err != nil {
		t.Fatal(err)
	}
	infos, _ := filepath.Glob("/proc/self/fdinfo/*")
	var watches []string
	line := regexp.MustCompile(fmt.Sprintf(`tfd: *%d events: *([0-9a-f]+) `, socket))
	for _, info := range infos {
		text, _ := os.ReadFile(info)
		for _, match := range line.FindAllSubmatch(text, -1) {
			watches = append(watches, string(match[1]))
		}
	}
	if len(watches) != 1 || watches[0] != "19" { // EPOLLIN, and EPOLLERR and EPOLLHUP, which are always watched
		t.Errorf("the socket is watched for %q", watches)
	}
}
