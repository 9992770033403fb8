package tools

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/execbus/execbus/messages"
)

// The arguments of write_stdin that no other tool has.
const (
	argChars     = "chars"
	argNoTimeout = "no_timeout"
)

func writeStdin(options Options) tool {
	longest := max(cmp.Or(options.Session.LongestPoll, messages.DefaultMaxPoll), messages.MinPoll)
	return tool{Tool: Tool{Name: WriteStdin, Title: "Write to a process, or wait for it", Destructive: true,
		Description: "Writes to a running process and returns what it has said since the last answer; with empty chars it only waits. " +
			"A process that was started without tty takes no input but \"\\u0003\", which interrupts it."},
		parameters: []parameter{
			sessionID,
			{name: argChars, kind: text, about: "The bytes to write; a line ends with \\n. Default: none, to wait only."},
			{name: argYield, kind: milliseconds, about: fmt.Sprintf(
				"How long to wait for more output; the end of the process answers at once. Default: %d. With chars other values are brought between %d and %d, without between %d and %d.",
				ms(messages.DefaultWriteYield), ms(messages.MinYield), ms(messages.MaxYield), ms(messages.MinPoll), ms(longest))},
			until,
			maxTokens(options.Session),
			viewed(options.Session),
			{name: argNoTimeout, kind: flag, about: "Waits until the process has ended. Only with empty chars and without yield_time_ms. Default: false."},
		},
		output: outcome(), run: runWrite}
}

func runWrite(ctx context.Context, s *Set, _ messages.CallID, a arguments) Answer {
	if a.flag(argNoTimeout) {
		switch {
		case a.text(argChars) != "":
			return misread(wrong(WriteStdin, argNoTimeout, "`no_timeout=true` requires empty `chars`; write first, and then wait"))
		case a.has(argYield):
			return misread(wrong(WriteStdin, argNoTimeout, "`no_timeout=true` requires `yield_time_ms` to be omitted; leave one of them out"))
		}
	}
	result, err := s.session.Write(ctx, messages.WriteStdin{Process: a.process(), Bytes: []byte(a.text(argChars)),
		Yield: optional[time.Duration](a, argYield), Until: untilOf(a), MaxOutputTokens: optional[int](a, argMaxTokens), View: a.view(), NoTimeout: a.flag(argNoTimeout)})
	if err != nil {
		return failure(WriteStdin, err)
	}
	return s.outcome(result, a)
}
