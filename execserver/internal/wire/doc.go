// Package wire is the vocabulary of the exec-server protocol: messages, methods, limits, and the transports that carry them. Server
// and client share it.
//
// A message is one JSON object: a request has a method and an id, a notification has a method, a response has a result or an error
// and the id of its request. There is no "jsonrpc" member, and unknown members are ignored. [Parse] refuses everything else: other
// values, names that occur twice, text that is not UTF-8, too many or too deeply nested values.
//
// [DecodeParams] reads parameters by the exact names of their fields, and its errors name the field. A field whose tag has omitempty
// or omitzero may be left out. Every other field must be present.
//
// A [Conn] carries whole messages over a websocket, or as lines over any stream. It does not authenticate the other side: a listener
// does that before it makes a Conn.
package wire
