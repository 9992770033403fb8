package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/execbus/execbus/messages"
)

// Kinds are the events that a log has a line for. A bus subscription that feeds a log names them.
func Kinds() []messages.EventKind {
	return []messages.EventKind{
		messages.KindToolDecision, messages.KindExecStarted, messages.KindAttemptEnded, messages.KindExecEnded,
		messages.KindTerminalInteraction, messages.KindProcessSignaled, messages.KindTerminalResized,
		messages.KindKeyboardTaken, messages.KindKeyboardReturned,
		messages.KindApprovalRequested, messages.KindApprovalResolved, messages.KindNetworkConnection, messages.KindProgramExecuted,
		messages.KindPatchStarted, messages.KindPatchApplied, messages.KindPatchFailed,
		messages.KindExecNotice, messages.KindGap,
	}
}

// The kinds of the log's own lines.
const (
	KindOpened  messages.EventKind = "audit_opened"
	KindDropped messages.EventKind = "audit_dropped"
	KindClosed  messages.EventKind = "audit_closed"
)

// Opened begins each run: from when a host opens the log until it closes it, or is killed.
type Opened struct {
	At     time.Time `json:"at"`
	Log    string    `json:"log"` // the same in all runs
	Run    int64     `json:"run"` // from 1
	PID    int       `json:"pid"`
	UID    int       `json:"uid"`
	OnFull OnFull    `json:"onFull"`
	// Unclosed says that the run before was not closed, and Torn how many bytes of an unfinished line it had left, which are gone.
	Unclosed bool  `json:"unclosed,omitempty"`
	Torn     int64 `json:"torn,omitempty"`
}

// Dropped stands where events are missing.
type Dropped struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Events int64     `json:"events"`
	// Unknown says that there were more, nobody knows how many.
	Unknown bool `json:"unknown,omitempty"`
}

// Closed ends a run.
type Closed struct {
	At      time.Time `json:"at"`
	Dropped int64     `json:"dropped"` // events of the run that have no line
}

// ownEvent is a line of the log itself.
type ownEvent interface{ withKind() any }

func (e *Opened) withKind() any {
	return struct {
		Kind messages.EventKind `json:"kind"`
		*Opened
	}{KindOpened, e}
}

func (e *Dropped) withKind() any {
	return struct {
		Kind messages.EventKind `json:"kind"`
		*Dropped
	}{KindDropped, e}
}

func (e *Closed) withKind() any {
	return struct {
		Kind messages.EventKind `json:"kind"`
		*Closed
	}{KindClosed, e}
}

// Sum stands for bytes that are not in the log. Equal bytes have equal digests within one run, and nobody can try which bytes have a digest,
// because its key is in the memory of the host alone, and goes with it.
type Sum struct {
	Bytes  int    `json:"bytes"`
	Digest string `json:"digest"` // HMAC-SHA-256, its first half, in hexadecimal digits
}

func (l *Log) sum(p []byte) Sum {
	mac := hmac.New(sha256.New, l.key[:])
	mac.Write(p)
	return Sum{len(p), hex.EncodeToString(mac.Sum(nil)[:sha256.Size/2])}
}

// input is a messages.TerminalInteraction without what was typed. It has a digest where the event has the bytes.
type input struct {
	Kind messages.EventKind `json:"kind"`
	messages.Origin
	Length int                `json:"length"`
	Mode   messages.InputKind `json:"mode,omitempty"`
	Digest string             `json:"digest,omitempty"`
}

// asked is a messages.ApprovalRequested with the names alone of the variables, and without the difference that a patch makes.
type asked struct {
	Kind messages.EventKind `json:"kind"`
	messages.Origin
	messages.Question
	Environment []string `json:"environment,omitempty"`
	Diff        *Sum     `json:"diff,omitempty"`
}

// shown is an event as a log shows it, without what was typed, what was printed and what files contain, and what it weighs in the queue. It
// reports false for one that is not worth a line.
func (l *Log) shown(event messages.Event) (shown any, weight int, worth bool) {
	switch e := event.(type) {
	case messages.TerminalInteraction:
		shown := input{Kind: e.Kind(), Origin: e.Origin, Length: e.Length, Mode: e.Mode}
		if e.Input != nil {
			shown.Digest = l.sum(e.Input).Digest
		}
		return shown, len(e.Call), e.Length > 0 // the others are polls
	case messages.ExecEnded:
		e.Transcript = nil
		return e, messages.Weight(e), true
	case messages.ApprovalRequested:
		q := asked{Kind: e.Kind(), Origin: e.Origin, Question: e.Question}
		for _, variable := range e.Environment {
			name, _, _ := strings.Cut(variable, "=")
			q.Environment = append(q.Environment, name)
		}
		if e.Patch != nil {
			sum, patch := l.sum([]byte(e.Patch.Diff)), *e.Patch
			patch.Diff = ""
			q.Diff, q.Patch = &sum, &patch
		}
		return q, messages.Weight(e), true
	}
	return event, messages.Weight(event), true
}

// oversize is an event that needs more than a line may have.
type oversize struct {
	Kind messages.EventKind `json:"kind"`
	messages.Origin
	Oversize struct {
		Bytes  int    `json:"bytes"`  // of the event's JSON
		SHA256 string `json:"sha256"` // of it
		Begins string `json:"begins"` // with this
	} `json:"oversize"`
}

// maxCall bounds the caller's name of an event that is oversize.
const maxCall = 1 << 10

// encoded is the JSON of an event, in at most MaxLine bytes.
func encoded(q queued) []byte {
	text, err := json.Marshal(q.event)
	if err != nil {
		text, _ = json.Marshal(oversize{Kind: q.kind, Origin: q.origin})
	}
	if text = plain(text); len(text) <= MaxLine {
		return text
	}
	short := oversize{Kind: q.kind, Origin: q.origin}
	if len(short.Call) > maxCall {
		short.Call = ""
	}
	short.Oversize.Bytes, short.Oversize.SHA256, short.Oversize.Begins = len(text), digestOf(text), strings.ToValidUTF8(string(text[:MaxLine/8]), "")
	text, _ = json.Marshal(short)
	return plain(text)
}

// plain writes <, > and & as they are, which package encoding/json does not where a type encodes itself: a log is searched with grep, too.
func plain(text []byte) []byte {
	if !bytes.Contains(text, []byte(`\u00`)) {
		return text
	}
	out := text[:0]
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			if text[i+1] != 'u' {
				out = append(out, text[i], text[i+1])
				i++
				continue
			}
			if c, is := map[string]byte{"003c": '<', "003e": '>', "0026": '&'}[string(text[i+2:i+6])]; is {
				out = append(out, c)
				i += 5
				continue
			}
		}
		out = append(out, text[i])
	}
	return out
}
