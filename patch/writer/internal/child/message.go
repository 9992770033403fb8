package child

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"path"
	"strconv"
	"strings"
)

// Bounds of the messages. A side that gets more gives up.
const (
	MaxMessage = 192 << 20 // one change, with what was and what becomes of it, in base64
	MaxChanges = 8192
	MaxTotal   = 512 << 20 // all contents of all changes
)

// Request is what the host wants. Exactly one field is set.
type Request struct {
	Read    *Read
	Change  *Change // one more for Prepare or Recover; there is no answer
	Prepare *Prepare
	Commit  bool     // after Prepare
	Recover *Recover // what another process has begun
}

// Reply is an answer. For each path of Read there is one.
type Reply struct {
	File     *File    `json:",omitempty"`
	Prepared []Made   `json:",omitempty"` // for each change
	Failed   *Failed  `json:",omitempty"` // nothing has changed
	Report   []Result `json:",omitempty"` // for each change
}

// Read asks for files.
type Read struct {
	Paths             []string // absolute
	MaxFile, MaxTotal int64
}

// ID identifies a file.
type ID struct{ Device, Inode uint64 }

// Dir is a directory without links on its path.
type Dir struct {
	Path string
	ID
	Born int64 // as of messages.Location; it says more only to the host: an overlay changes it when it copies a directory up
}

// Stamp says which file stood at a name. All but Dir is zero if there was none.
type Stamp struct {
	Dir Dir // the deepest directory on the way to it that existed
	ID
	Mode     uint32 // as stat(2) has it
	Size     int64
	Modified int64 // in nanoseconds since 1970
}

// File is the answer for one path.
type File struct {
	Path, Place, Leads, Link string
	Kind                     string
	At, End                  Stamp // of what stands at Place and at Leads
	Data                     []byte
	Blocked, Problem         string
}

// Change is what becomes of one name.
type Change struct {
	Path    string // absolute, without links
	Stamp   Stamp
	Old     []byte // of a regular file
	Link    string // what was there is a link with this text
	Exists  bool   // something was there
	New     []byte
	Remove  bool // nothing is to be there
	Mode    uint32
	Created bool // it is a new file, even if another one was there: owner and mode are what the kernel gives it; Mode is for a file in place
	InPlace bool // it is not to be exchanged
	Like    int  // the change whose old file has owner and attributes for a new one; -1 for none
	Temp    string
}

// Check returns an error for a change that no plan has.
func (c *Change) Check() error {
	switch {
	case !path.IsAbs(c.Path) || path.Clean(c.Path) != c.Path || c.Path == "/" || strings.ContainsRune(c.Path, 0):
		return errors.New("it has a path that is not absolute and clean")
	case !path.IsAbs(c.Stamp.Dir.Path) || !strings.HasPrefix(c.Path, c.Stamp.Dir.Path):
		return errors.New("it has no directory for a file")
	case !strings.HasPrefix(c.Temp, TempPrefix) || strings.ContainsAny(c.Temp, "/\x00"):
		return errors.New("it has a temporary name that is not ours")
	case c.Exists != (c.Stamp.ID != ID{}) || c.Remove && !c.Exists:
		return errors.New("it has a change that makes no sense")
	}
	return nil
}

// Prepare checks the changes that were sent, and writes the new contents beside their places.
type Prepare struct{ Protected []string }

// Made is what was made for a change: the file with the new content. Its ID is zero if the change is made in place, or removes something.
type Made struct {
	ID
	Old ID // of the old file: to open it for writing may have changed that
}

// Failed says why nothing was done.
type Failed struct{ Path, Why string }

// Recover settles what another process has begun with the changes that were sent. Made is nil if that process may not have finished
// its preparation; then it has put nothing in place.
type Recover struct {
	Made      []Made
	Protected []string
}

// State is how a file has ended up.
type State string

// The states.
const (
	IsNew State = "new"  // as the patch wants it
	IsOld State = "old"  // as it was
	Left  State = "left" // as somebody else has made it, or as it could not be settled; Why says more
)

// Result says how a file has ended up.
type Result struct {
	Path  string
	State State
	Why   string `json:",omitempty"`
	Torn  bool   `json:",omitempty"` // it is half old and half new: only the record of it has the rest
}

// Send writes a message.
func Send(w io.Writer, message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if len(text) > MaxMessage {
		return errors.New("the message has " + strconv.Itoa(len(text)) + " bytes, more than the bound")
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(text)), uint32(len(text))), text...))
	return err
}

// Receive reads a message. What it has says how long it is, so memory is taken only for what comes.
func Receive(r io.Reader, message any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	size := int64(binary.BigEndian.Uint32(head[:]))
	if size > MaxMessage {
		return errors.New("a message of " + strconv.FormatInt(size, 10) + " bytes, more than the bound")
	}
	var text bytes.Buffer
	if n, err := io.CopyN(&text, r, size); n < size {
		return errors.Join(io.ErrUnexpectedEOF, err)
	}
	return json.Unmarshal(text.Bytes(), message)
}
