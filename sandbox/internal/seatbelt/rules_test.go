package seatbelt

import (
	"reflect"
	"testing"

	"github.com/execbus/execbus/sandbox/internal/confine"
)

func TestRulesOfAPlan(t *testing.T) {
	plan := &confine.Plan{Network: true, Sockets: []confine.Rule{{Path: "/run/s"}}, Rules: []confine.Rule{
		{Path: "/ws", Access: confine.Write},
		{Path: "/ws/.git", Access: confine.Write}, // granted
		{Path: "/ws/.codex", Access: confine.Read},
		{Path: "/ws/secret", Access: confine.Nothing},
		{Path: "/ws/sub", Access: confine.Write},
		{Path: "/ws/secret/public", Access: confine.Read},
		{Path: "/ws/secret/work", Access: confine.Write},
		{Path: "/ws/sub/.git", Access: confine.Read},
	}}
	want := Rules{Network: true, Sockets: []string{"/run/s"},
		Write: []Root{{"/ws", []string{"/ws/.codex", "/ws/secret/public", "/ws/sub/.git"}}, {"/ws/.git", nil}, {"/ws/sub", []string{"/ws/sub/.git"}},
			{"/ws/secret/work", nil}},
		Reading: []confine.Rule{plan.Rules[3], plan.Rules[5], plan.Rules[6]},
	}
	if got := RulesOf(plan); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}
