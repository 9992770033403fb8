package tools_test

import (
	"fmt"
	"testing"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/tests/expect"
	"github.com/execbus/execbus/tools"
)

func TestWaitProcesses(t *testing.T) {
	set, _ := open(t)
	silent, ready, over := start(t, set, "exec sleep 600"), start(t, set, "exec sleep 600"), start(t, set, "sleep 1; exit 3")
	all := fmt.Sprintf(`{"all":true,"yield_time_ms":120000,"processes":[{"session_id":%d,"until":{"quiet_ms":1}},{"session_id":%d}]}`, ready, over)
	answer := call(t, set, "wait_processes", all)
	got := structured[tools.Wakeups](t, answer)
	if len(got.Wakeups) != 2 {
		t.Fatalf("%+v", answer)
	}
	expect.Contains(t, answer.Text, fmt.Sprintf("%d: it exited with code 3", over))
	for _, w := range got.Wakeups {
		if exited := w.SessionID == int(over); exited != (w.Reason == string(messages.MetExit)) || exited != (w.ExitCode != nil) {
			t.Errorf("%+v", w)
		}
	}
	none := call(t, set, "wait_processes", fmt.Sprintf(`{"yield_time_ms":1,"processes":[{"session_id":%d,"until":"exit"}]}`, silent))
	if got := structured[tools.Wakeups](t, none); len(got.Wakeups) != 0 {
		t.Errorf("%+v", none)
	}
	for _, wrong := range []string{`{}`, `{"processes":[]}`, `{"processes":[{}]}`, `{"processes":[{"session_id":1,"until":"never"}]}`, `{"processes":7}`, `{"processes":[{"session_id":77777}]}`} {
		if answer := call(t, set, "wait_processes", wrong); answer.Err == nil {
			t.Errorf("%s: %+v", wrong, answer)
		}
	}
}
