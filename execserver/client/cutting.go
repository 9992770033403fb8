package client

import (
	"errors"
	"io"
	"net/http"
)

// cutting makes connections whose end is an error. The websocket library takes the end of a connection in the middle of a message for
// the end of the message, and would return half a message.
type cutting struct{ http.RoundTripper }

func (c cutting) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if body, upgraded := response.Body.(io.ReadWriteCloser); upgraded {
		response.Body = cut{body}
	}
	return response, nil
}

type cut struct{ io.ReadWriteCloser }

func (c cut) Read(p []byte) (int, error) {
	n, err := c.ReadWriteCloser.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
