package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/internal/own"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/spool"
)

// keep copies all output of a command that has ended to a file of the user, and names it. Of the files of earlier commands the oldest make
// room for it.
func (c *config) keep(session *execbus.Session, process messages.ProcessID, std streams) error {
	dir := own.Kept()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	name := filepath.Join(dir, time.Now().Format("20060102-150405.000000000")+".out")
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = copyOutput(file, session, process)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return errors.Join(fmt.Errorf("the output is not kept: %w", err), os.Remove(name))
	}
	if err := trim(dir, cmp.Or(c.output.Total, spool.DefaultTotal)); err != nil {
		return err
	}
	fmt.Fprintf(std.err, "execbus: all output is in %s\n", messages.Visible(name))
	return nil
}

// copyOutput copies what is kept of the output of a process that has ended. A marker stands where something is missing.
func copyOutput(file *os.File, session *execbus.Session, process messages.ProcessID) error {
	for at := int64(0); ; {
		page, err := session.Read(context.Background(), messages.ReadOutput{Process: process, Offset: &at, SkipLost: true})
		if err != nil {
			return err
		}
		if page.Missed > 0 {
			if _, err := file.WriteString(messages.OmissionMarker(page.Missed)); err != nil {
				return err
			}
		}
		at += page.Missed
		for _, chunk := range page.Chunks {
			if _, err := file.Write(chunk.Bytes); err != nil {
				return err
			}
			at += int64(len(chunk.Bytes))
		}
		if at >= page.Total {
			return nil
		}
	}
}

// trim removes the oldest files until the others have no more than so many bytes. The newest one stays.
func trim(dir string, total int64) error {
	entries, err := os.ReadDir(dir) // sorted by their names, which begin with the time
	if err != nil {
		return err
	}
	for i := len(entries) - 1; i >= 0; i-- {
		info, err := entries[i].Info()
		if err != nil {
			continue // another process has removed it
		}
		if total -= info.Size(); total < 0 && i < len(entries)-1 {
			_ = os.Remove(filepath.Join(dir, entries[i].Name()))
		}
	}
	return nil
}
