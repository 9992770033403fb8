package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/execbus/execbus/messages"
)

// HeadSuffix is behind the name of a log in that of the file with its head.
const HeadSuffix = ".head"

// headSize is the size of that file, in bytes: it is written in one piece, in place, and needs no room once it is there.
const headSize = 256

// head is what that file says: how far the log goes, in lines and bytes, and whose it is.
type head struct {
	messages.AuditHead
	Bytes int64  `json:"bytes"`
	Runs  int64  `json:"runs"`
	Log   string `json:"log"`
}

func (h head) text() []byte {
	encoded, _ := json.Marshal(h) // it has nothing that cannot be
	return append(encoded, bytes.Repeat([]byte{' '}, headSize-1-len(encoded))...)
}

// readHead reads the file's text. An empty one is that of an empty log.
func readHead(text []byte) (h head, err error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return head{}, nil
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return head{}, fmt.Errorf("it is no head of an audit log: %w", err)
	}
	if uuid.Validate(h.Log) != nil || h.Lines < 0 || h.Runs < 0 || h.Bytes < 0 || (h.Lines == 0) != (h.Digest == "") || h.Lines > 0 && !isDigest(h.Digest) {
		return head{}, errors.New("it is no head of an audit log")
	}
	return h, nil
}

// disk is a file. Only one goroutine calls it.
type disk interface {
	io.ReaderAt
	io.WriterAt
	Size() (int64, error)
	Truncate(size int64) error
	Sync() error
	// Gone returns an error if another file, or none, has the name by now.
	Gone() error
	Close() error
}

// place is where a log is, and how far it is. Only the goroutine that writes uses it, but for the head.
type place struct {
	path       string
	file, side disk // the log, and the file with the head
	lines      int64
	digest     string // of the newest line
	run        int64
	lost       int64  // events of this run that were counted instead
	size       int64  // of what is written
	pending    []byte // lines that are not
	behind     bool   // the file with the head does not have the newest one

	mu   sync.Mutex // Head is called by others
	head head
}

// begin opens the files, and writes the first line of a run.
func (p *place) begin(o Options) (err error) {
	p.path = o.File
	if !filepath.IsAbs(o.File) || strings.ContainsRune(o.File, 0) {
		return wrong("File", fmt.Sprintf("%q is no absolute path; use one", o.File))
	}
	if err := os.MkdirAll(filepath.Dir(o.File), 0o700); err != nil {
		return p.failed(err)
	}
	if p.side, err = o.open(o.File + HeadSuffix); err == nil {
		p.file, err = o.open(o.File)
	}
	if err == nil {
		err = p.resume(o.OnFull)
	}
	if err == nil {
		if err = p.write(); err == nil {
			err = p.sync()
		}
		err = p.failed(err)
	}
	if err != nil {
		p.close()
	}
	return err
}

func (p *place) failed(err error) error {
	if _, typed := errors.AsType[*messages.Error](err); err == nil || typed {
		return err
	}
	return &messages.Error{Code: messages.ErrAuditFailed, Op: "audit", Subject: p.path, Detail: "the log cannot be written: " + err.Error()}
}

// resume finds the end of the log, and adds the line with which this run begins. A line that a killed host has not finished goes.
func (p *place) resume(mode OnFull) error {
	text := make([]byte, headSize)
	n, err := p.side.ReadAt(text, 0)
	if err != nil && err != io.EOF {
		return p.failed(err)
	}
	h, err := readHead(text[:n])
	if err != nil {
		return p.misfit(err.Error())
	}
	size, err := p.file.Size()
	if err != nil {
		return p.failed(err)
	}
	first := Opened{At: time.Now(), Log: h.Log, OnFull: mode, PID: os.Getpid(), UID: os.Getuid(), Run: 1}
	if h.Log == "" && size > 0 {
		return p.misfit("it has lines, and the file with its head, " + p.path + HeadSuffix + ", is missing or empty")
	}
	if h.Log == "" { // this host may be killed before there is a line
		h.Log = uuid.NewString()
		first.Log = h.Log
		if _, err := p.side.WriteAt(h.text(), 0); err != nil {
			return p.failed(err)
		}
	}
	var last parsed
	if h.Lines > 0 {
		if last, err = p.lastAt(h, size); err != nil {
			return err
		}
	}
	p.head, p.lines, p.digest, p.size = h, h.Lines, h.Digest, h.Bytes
	c := &checker{lines: h.Lines, digest: h.Digest, log: h.Log, kind: last.event.Kind, run: h.Runs}
	if _, err := c.read(io.NewSectionReader(p.file, h.Bytes, size-h.Bytes), nil); err != nil {
		return p.failed(err)
	}
	if c.broken != nil {
		return p.misfit(c.broken.String())
	}
	p.lines, p.digest, p.size = c.lines, c.digest, h.Bytes+c.offset
	first.Run, first.Torn, first.Unclosed = c.run+1, size-p.size, c.lines > 0 && c.kind != KindClosed
	p.run = first.Run
	p.own(&first)
	if first.Torn > 0 {
		return p.failed(p.file.Truncate(p.size))
	}
	return nil
}

// lastAt reads the last line that the head counts.
func (p *place) lastAt(h head, size int64) (parsed, error) {
	if size < h.Bytes {
		return parsed{}, p.misfit(fmt.Sprintf("it has %d bytes, and had %d", size, h.Bytes))
	}
	from := max(0, h.Bytes-maxRead)
	text := make([]byte, h.Bytes-from)
	if _, err := p.file.ReadAt(text, from); err != nil && err != io.EOF {
		return parsed{}, p.failed(err)
	}
	line, ended := bytes.CutSuffix(text, []byte{'\n'})
	line = line[bytes.LastIndexByte(line, '\n')+1:]
	if !ended || digestOf(line) != h.Digest {
		return parsed{}, p.misfit(fmt.Sprintf("its line %d is not the one that was written", h.Lines))
	}
	last, err := parse(line)
	if err != nil {
		return parsed{}, p.misfit(err.Error())
	}
	return last, nil
}

// misfit is the error about a log that somebody else has changed.
func (p *place) misfit(why string) error {
	return &messages.Error{Code: messages.ErrAuditFailed, Op: "audit", Subject: p.path,
		Detail: "the log was changed by somebody else: " + why + `; look at it with "execbus audit verify", and move it and its head away to begin another`}
}

// add makes a line of what was queued.
func (p *place) add(q queued) {
	if q.dropped != nil {
		p.lost += q.dropped.Events
		p.own(q.dropped)
		return
	}
	p.line(encoded(q))
}

// own adds a line of the log itself.
func (p *place) own(event ownEvent) {
	text, _ := json.Marshal(event.withKind()) // it has nothing that cannot be
	p.line(plain(text))
}

// line adds a line with an event.
func (p *place) line(event []byte) {
	start := len(p.pending)
	p.pending = lineOf(p.pending, p.lines+1, p.digest, event)
	p.lines++
	p.digest = digestOf(p.pending[start:])
	p.pending = append(p.pending, '\n')
}

// lineOf appends a line, without its newline.
func lineOf(to []byte, n int64, prev string, event []byte) []byte {
	return fmt.Appendf(to, `{"n":%d,"prev":"%s","event":%s}`, n, prev, event)
}

func isDigest(text string) bool {
	sum, err := hex.DecodeString(text)
	return err == nil && len(sum) == sha256.Size
}

func digestOf(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

func (p *place) unwritten() bool { return len(p.pending) > 0 || p.behind }

// write writes the lines, and then the head.
func (p *place) write() error {
	for len(p.pending) > 0 {
		n, err := p.file.WriteAt(p.pending, p.size)
		p.size += int64(n)
		p.pending = p.pending[n:]
		if err != nil {
			return err
		}
		p.behind = true
	}
	p.pending = nil
	h := head{messages.AuditHead{Lines: p.lines, Digest: p.digest}, p.size, p.run, p.head.Log}
	if _, err := p.side.WriteAt(h.text(), 0); err != nil {
		return err
	}
	p.mu.Lock()
	p.head, p.behind = h, false
	p.mu.Unlock()
	return nil
}

// sync has the disk keep what was written, if the files are still where they were.
func (p *place) sync() error {
	if err := errors.Join(p.file.Gone(), p.side.Gone()); err != nil {
		return err
	}
	if err := p.file.Sync(); err != nil {
		return err
	}
	return p.side.Sync()
}

func (p *place) close() {
	for _, file := range []disk{p.side, p.file} {
		if file != nil {
			_ = file.Close()
		}
	}
}
