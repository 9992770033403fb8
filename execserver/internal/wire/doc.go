// Package wire is the vocabulary of the exec-server protocol: messages, methods, limits, and the transports that carry them. Server
// and client share it.
//
// A message is one JSON object: a request has a method and an id, a notification has a method, a response has a result or an error
// and the id of its request. There is no "jsonrpc" member, and others that are not known are ignored. [Parse] refuses everything
// else: other values, names that occur twice, text that is not UTF-8, too many or too deeply nested values.
//
// [DecodeParams] reads parameters by the exact names of their fields, and its errors name the field. What a field's tag marks as
// omitempty or omitzero may be left out, every other field must be there.
//
// A [Conn] carries whole messages, over a websocket, as lines over any stream, or inside of the process ([Pair]). It says nothing
// about the other side; a listener authenticates before it makes a Conn.
package wire
