package warden

import (
	"slices"

	"golang.org/x/sys/unix"
)

// sharer is a newborn that may still use our descriptors. A tree.Tree is one.
type sharer interface{ Apart() bool }

// closing is a set of descriptors that are to be closed when none of these newborns can need them. Until then, a newborn would find
// nothing, or another file, under the number of one that was closed.
type closing struct {
	files    []int
	newborns []sharer
}

// closeAfter closes descriptors when these newborns need them no more.
func (w *warden) closeAfter(files []int, newborns ...sharer) {
	w.closings = append(w.closings, closing{files, newborns})
	w.closeFiles()
}

// unapart returns the newborns that may still use our descriptors.
func (w *warden) unapart() (newborns []sharer) {
	for _, c := range w.closings {
		newborns = append(newborns, c.newborns...)
	}
	return newborns
}

// closeFiles closes the descriptors that no newborn needs any more.
func (w *warden) closeFiles() {
	left := w.closings[:0]
	for _, c := range w.closings {
		if c.newborns = slices.DeleteFunc(c.newborns, sharer.Apart); len(c.newborns) > 0 {
			left = append(left, c)
			continue
		}
		for _, fd := range c.files {
			_ = unix.Close(fd)
		}
	}
	clear(w.closings[len(left):])
	w.closings = left
}
