package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/execbus/execbus/execserver/internal/wire"
	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/ptyio"
)

// AwaitedInput implements ptyio.Inquirer. What the server has seen counts only if no input is on its way to the process, and if the owner has
// all output that came before.
func (c *child) AwaitedInput() (*messages.AwaitedInput, error) {
	before, idle := c.input.idle()
	if !idle || c.over() {
		return nil, nil
	}
	found, err := look[wire.AwaitedInputResult](c, wire.ProcessAwaitedInput)
	if err != nil || found.Input == nil || c.over() {
		return nil, err
	}
	if err := checkAwaited(found.Input); err != nil {
		return nil, err
	}
	if after, idle := c.input.idle(); !idle || after != before || c.last.Load() < found.Seq {
		return nil, nil
	}
	return found.Input, nil
}

// Listeners implements ptyio.Inquirer.
func (c *child) Listeners() ([]ptyio.Listener, error) {
	if c.over() {
		return nil, nil
	}
	answer, err := look[wire.ListenersResult](c, wire.ProcessListeners)
	if err != nil || c.over() {
		return nil, err
	}
	return listenersOf(answer.Listeners)
}

// look puts a question about a process to the server.
func look[T any](c *child, method string) (answer T, err error) {
	link := c.spawner.link
	if !link.has(wire.ExtensionLooks) {
		return answer, unsupported("look at process", "the server does not say what its processes wait for; use a server of this version")
	}
	ctx, cancel := context.WithTimeout(link.life, c.spawner.limits.look)
	defer cancel()
	text, err := link.ask(ctx, &call{again: true}, method, wire.LookParams{ProcessID: c.id})
	switch {
	case err != nil && c.over(): // the server may have forgotten it
		return answer, nil
	case ctx.Err() != nil && link.life.Err() == nil:
		return answer, failed("look at process", "the server did not answer in time")
	case err != nil:
		return answer, refusal("look at process", "", err)
	}
	return answer, decode(text, &answer)
}

// maxLooked bounds an answer, in bytes.
const maxLooked = 64 << 10

// decode reads an answer.
func decode(text []byte, into any) error {
	if len(text) > maxLooked {
		return malformed(fmt.Sprintf("it has %d bytes", len(text)))
	}
	if err := json.Unmarshal(text, into); err != nil {
		return malformed(err.Error())
	}
	return nil
}

func malformed(how string) error {
	return failed("look at process", "the server's answer is malformed: "+clipped(how))
}

// checkAwaited refuses what no program can wait for, and makes names fit to be shown.
func checkAwaited(a *messages.AwaitedInput) error {
	switch a.Kind {
	case messages.InputLine, messages.InputSecret, messages.InputKeys:
	default:
		return malformed(fmt.Sprintf("there is no input of the kind %q", a.Kind))
	}
	a.Guess = a.Guess || a.Hidden
	a.Program = named(a.Program)
	return nil
}

// named is a program's name as the server reports it. The kernel's have at most 15 bytes.
func named(program string) string { return clipped(program[:min(len(program), maxName)]) }

// listenersOf reads the sockets of an answer.
func listenersOf(list []wire.Listener) ([]ptyio.Listener, error) {
	if len(list) > wire.MaxListeners {
		return nil, malformed(fmt.Sprintf("it has %d sockets", len(list)))
	}
	var found []ptyio.Listener
	for _, l := range list {
		address, err := netip.ParseAddrPort(l.Address)
		if err != nil || address.Addr().Zone() != "" { // a zone may be any text
			return nil, malformed(fmt.Sprintf("%q is no address with a port", l.Address))
		}
		found = append(found, ptyio.Listener{Address: address, PID: l.PID, Program: named(l.Program)})
	}
	return found, nil
}
