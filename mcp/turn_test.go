package mcp

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// reads reads the next message in a goroutine. there says whether it had come when all goroutines waited.
func reads(t *testing.T, s *stream) (got <-chan jsonrpc.Message, there bool) {
	t.Helper()
	messages := make(chan jsonrpc.Message, 1)
	go func() {
		if message, err := s.Read(t.Context()); err == nil {
			messages <- message
		}
	}()
	synctest.Wait()
	return messages, len(messages) == 1
}

func answerTo(t *testing.T, message jsonrpc.Message) *jsonrpc.Response {
	t.Helper()
	return &jsonrpc.Response{ID: message.(*jsonrpc.Request).ID, Result: []byte("{}")}
}

const listing = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"list_processes"}}` + "\n"

// A line is read when the call before it has begun or is answered.
func TestTheNextLineWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(strings.NewReader(fmt.Sprintf(listing+listing+listing, 1, 2, 3)), io.Discard)
		defer func() { _ = s.Close() }()
		if _, there := reads(t, s); !there {
			t.Fatal("the first line was not read")
		}
		second, there := reads(t, s)
		if there {
			t.Fatal("the second line was read before the first call had begun")
		}
		s.begun()
		synctest.Wait()
		if len(second) != 1 {
			t.Fatal("the second line was not read, although the first call has begun")
		}
		third, there := reads(t, s)
		if there {
			t.Fatal("the third line was read before the second call had begun")
		}
		if err := s.Write(t.Context(), answerTo(t, <-second)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(third) != 1 {
			t.Error("the third line was not read, although the second call was answered")
		}
	})
}

// The server stops reading from a client that has too many unanswered requests.
func TestAStreamWithManyUnansweredRequestsIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(strings.NewReader(strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n", maxUnanswered+1)), io.Discard)
		defer func() { _ = s.Close() }()
		var last jsonrpc.Message
		for range maxUnanswered {
			message, there := reads(t, s)
			if !there {
				t.Fatal("a request is not read")
			}
			last = <-message
		}
		more, there := reads(t, s)
		if there {
			t.Fatal("one more is read")
		}
		if err := s.Write(t.Context(), answerTo(t, last)); err != nil {
			t.Fatal(err)
		}
		if synctest.Wait(); len(more) != 1 {
			t.Error("it is not read, although another was answered")
		}
	})
}
