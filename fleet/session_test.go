package fleet

import (
	"errors"
	"reflect"
	"testing"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// Each call of the interface crosses the wire to a call of the node, and the node knows no others but Start.
func TestEveryCallOfASessionIsKnownToItsNode(t *testing.T) {
	w := newWorld(t, Settings{})
	w.node(Node{ID: "n"})
	nc, ctx := w.connect(), w.context()
	s := w.open(nc, Placement{})
	calls := reflect.TypeFor[execbus.SessionCalls]()
	if known := len(methods) - 1; calls.NumMethod()-1 != known || methods["start"].call == nil { // ID is no call
		t.Errorf("the interface has %d calls, and a node knows %d", calls.NumMethod()-1, known)
	}
	for i := range calls.NumMethod() {
		m := calls.Method(i)
		if m.Name == "ID" || m.Name == "Close" {
			continue
		}
		arguments := []reflect.Value{reflect.ValueOf(ctx)}
		if m.Type.NumIn() > 1 {
			arguments = append(arguments, reflect.Zero(m.Type.In(1)))
		}
		results := reflect.ValueOf(s).MethodByName(m.Name).Call(arguments)
		err, _ := results[len(results)-1].Interface().(error)
		if errors.Is(err, messages.ErrUnsupported) || errors.Is(err, messages.ErrUnreachable) {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}
