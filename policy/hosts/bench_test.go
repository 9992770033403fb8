package hosts

import (
	"fmt"
	"testing"

	"github.com/execbus/execbus/messages"
)

// BenchmarkDecide is one decision about a host that the last of the rules names.
func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var all []messages.HostRule
			for i := range n {
				all = append(all, allow(fmt.Sprintf("**.host%d.example", i), ""))
			}
			rules, err := NewRules(all)
			if err != nil {
				b.Fatal(err)
			}
			host, _ := Parse(fmt.Sprintf("a.host%d.example", n-1))
			snapshot := Snapshot{Rules: rules}
			for b.Loop() {
				if v := snapshot.Decide(Request{Host: host, Port: 443}); v.Action != Allow {
					b.Fatal(v)
				}
			}
		})
	}
}
