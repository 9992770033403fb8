package messages_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/execbus/execbus/messages"
)

func TestErrorIsOneSentence(t *testing.T) {
	for want, err := range map[string]*messages.Error{
		"exec argv: there is no command; name a program": {Code: messages.ErrInvalidRequest, Op: "exec", Subject: "argv",
			Detail: "there is no command; name a program", Hint: "set Argv or Script"},
		"resize: the process is on pipes": {Code: messages.ErrNotATerminal, Op: "resize", Detail: "the process is on pipes"},
		"1234: it has ended":              {Code: messages.ErrProcessEnded, Subject: "1234", Detail: "it has ended"},
		"unknown process":                 {Code: messages.ErrUnknownProcess},
		"write: input full":               {Code: messages.ErrInputFull, Op: "write", Hint: "write less"},
	} {
		if got := err.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

var codes = []messages.ErrorCode{
	messages.ErrInvalidRequest, messages.ErrUnknownProcess, messages.ErrProcessEnded, messages.ErrNoSuchProgram,
	messages.ErrSpawnFailed, messages.ErrStdinClosed, messages.ErrLineTooLong, messages.ErrInputFull, messages.ErrInputNotTaken,
	messages.ErrNotATerminal, messages.ErrWrongState, messages.ErrUnsupported, messages.ErrLimitReached,
	messages.ErrSlowSubscriber, messages.ErrCancelled, messages.ErrClosed, messages.ErrWardenLost, messages.ErrRuntimeFailure,
	messages.ErrOutputUnretained, messages.ErrRejected, messages.ErrAborted, messages.ErrAlreadyResolved, messages.ErrUnknownQuestion,
	messages.ErrAuditFailed,
	messages.ErrKeyboardTaken,
	messages.ErrUnknownGrant, messages.ErrUnreachable, messages.ErrNodeLost,
}

func TestErrorMatchesItsCode(t *testing.T) {
	also := map[messages.ErrorCode]messages.ErrorCode{
		messages.ErrProcessEnded:  messages.ErrUnknownProcess,
		messages.ErrNoSuchProgram: messages.ErrSpawnFailed,
	}
	for _, code := range codes {
		err := fmt.Errorf("wrapped: %w", &messages.Error{Code: code, Op: "exec", Subject: "x", Detail: "y", Hint: "z"})
		for _, other := range codes {
			want := other == code || other == also[code]
			if got := errors.Is(err, other); got != want {
				t.Errorf("an error of %s is %s: %v, want %v", code, other, got, want)
			}
		}
		for _, foreign := range []error{errors.New("other"), &messages.Error{}, messages.ErrorCode(""), &messages.Error{Code: code}} {
			if errors.Is(err, foreign) {
				t.Errorf("an error of %s is %#v", code, foreign)
			}
		}
		typed, ok := errors.AsType[*messages.Error](err)
		if !ok || typed.Hint != "z" {
			t.Errorf("the error cannot be taken out of its wrapping: %v", typed)
		}
	}
}

func TestErrorCrossesJSON(t *testing.T) {
	for _, err := range []*messages.Error{
		{Code: messages.ErrClosed},
		{Code: messages.ErrProcessEnded, Op: "use process", Subject: "1000", Detail: "ended \"so\"\n", Hint: "start it anew",
			Ended: &messages.EndRecord{Cause: messages.CauseTerminated, By: messages.TerminatedByPrune, Status: messages.StatusSignaled(15),
				Tree:     messages.TreeReport{Ended: 3, Survivors: []messages.Survivor{{PID: 7, Name: "sudo", Why: "not ours"}}, Airtight: true},
				Duration: 1234567 * time.Microsecond, Detail: "d"}},
		{Code: messages.ErrLimitReached, Busy: []messages.ProcessID{1000, 99999}},
	} {
		encoded, failed := json.Marshal(err)
		if failed != nil {
			t.Fatal(failed)
		}
		var decoded messages.Error
		if failed := json.Unmarshal(encoded, &decoded); failed != nil {
			t.Fatal(failed)
		}
		if !reflect.DeepEqual(&decoded, err) {
			t.Errorf("%s became %#v", encoded, decoded)
		}
		if decoded.Error() != err.Error() || !errors.Is(&decoded, err.Code) {
			t.Errorf("%q became %q", err, &decoded)
		}
	}
}

func TestASentenceNamesSoManyIDs(t *testing.T) {
	many := make([]messages.ProcessID, 100)
	for i := range many {
		many[i] = messages.ProcessID(1000 + i)
	}
	for want, ids := range map[string][]messages.ProcessID{
		"":                   nil,
		"1000":               many[:1],
		"1000, 1001":         many[:2],
		", 1063 and 36 more": many,
	} {
		if got := messages.ProcessIDs(ids); !strings.HasSuffix(got, want) || want == "" && got != "" {
			t.Errorf("%d ids are %q, want %q", len(ids), got, want)
		}
	}
}
