package wire

import "testing"

func TestTheLastMessageOfAPairIsReadBeforeItsEnd(t *testing.T) {
	for range 20_000 { // the end has to come while the reader begins to wait
		here, there := Pair()
		go func() {
			_ = there.Write(t.Context(), []byte("last"))
			_ = there.Close()
		}()
		if message, err := here.Read(t.Context()); err != nil || string(message) != "last" {
			t.Fatalf("%q, %v", message, err)
		}
	}
}
