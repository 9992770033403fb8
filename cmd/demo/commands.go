package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/window"
)

// command is a line with a colon in front.
type command struct {
	name, argument, help string
	do                   func(ctx context.Context, h *host, argument string) error
}

// commands has what the demo itself does. It is a function because :help is one of them.
func commands() []command {
	return []command{
		{"list", "", "list the commands that run and what they wait for, and those with output that was not shown", list},
		{"fg", "ID", "go on with a command where you have left off", foreground},
		{"wait", "ID", "wait until a command wants input, listens on a port or ends; Ctrl-C ends the wait only", wait},
		{"kill", "ID", "end a command and everything it started", kill},
		{"cd", "DIR", "run later commands in DIR", changeDir},
		{"patch", "FILE", "apply the patch in FILE", applyPatch},
		{"grants", "", "list what you allowed for this session", grants},
		{"revoke", "GRANT", "revoke it: you will be asked again about the next such command", revoke},
		{"window", "", "open a page in which others see and do what you can; each link is good for one browser", openWindow},
		{"help", "", "this list", help},
		{"quit", "", "end everything, and the demo", func(_ context.Context, h *host, _ string) error { h.quit(0); return nil }},
	}
}

// commandTime bounds a command. What has begun goes on after that.
const commandTime = 10 * time.Second

// enter handles a line from the prompt.
func (h *host) enter(text string) {
	line := strings.TrimSpace(text)
	name, argument, _ := strings.Cut(strings.TrimPrefix(line, ":"), " ")
	argument = strings.TrimSpace(argument)
	switch {
	case line == "":
		return
	case !strings.HasPrefix(line, ":"):
		h.start(messages.ExecCommand{Script: text, Login: new(true)}, line)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), commandTime)
	defer cancel()
	for _, c := range commands() {
		if c.name != name {
			continue
		}
		err := usageError(strings.TrimSpace(fmt.Sprintf("this is used as :%s %s", c.name, c.argument)))
		if (argument == "") != (c.argument == "") {
			h.note("demo: %v", err)
		} else if err := c.do(ctx, h, argument); err != nil {
			h.note("demo: %v", err)
		}
		return
	}
	h.note("demo: there is no :%s; :help lists what there is", name)
}

// find finds a job by its id.
func (h *host) find(argument string) (*job, error) {
	for _, j := range h.listed() {
		if strconv.Itoa(int(j.id)) == argument {
			return j, nil
		}
	}
	return nil, usageError(argument + " does not run; :list lists what does")
}

func list(ctx context.Context, h *host, _ string) error {
	jobs := h.listed()
	if len(jobs) == 0 {
		h.note("Nothing runs.")
		return nil
	}
	running, err := h.session.List(ctx)
	awaits := map[messages.ProcessID]string{}
	for _, p := range running {
		if text := p.Awaits.String(); text != "" {
			awaits[p.Process] = " (" + text + ")"
		}
	}
	text := "   ID  STATE     AGE     NOT SHOWN        COMMAND"
	for _, j := range jobs {
		state := "running"
		if j.end != nil {
			state = string(j.end.Cause)
		}
		text += fmt.Sprintf("\n%5d  %-8s  %-6v  %-9d bytes  %s%s", j.id, state, time.Since(j.began).Round(time.Second), j.said-j.shown, messages.Visible(j.text), awaits[j.id])
	}
	h.note("%s", text)
	return err
}

// wait shows for what reason a command is worth a look. Meanwhile there is no prompt.
func wait(_ context.Context, h *host, argument string) error {
	j, err := h.find(argument)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.stopWait = cancel
	h.note("Waiting for [%d]. Ctrl-C ends the wait.", j.id)
	go func() {
		found, err := h.session.Wait(ctx, messages.Wait{NoTimeout: true, For: []messages.WaitFor{{Process: j.id,
			Until: &messages.Until{AwaitingInput: true, Guesses: true, Listening: new(uint16)}}}})
		h.results <- func() {
			cancel()
			h.stopWait = nil
			switch {
			case errors.Is(err, messages.ErrCancelled):
				h.note("[%d] goes on.", j.id)
			case err != nil:
				h.note("demo: %v", err)
			default:
				for _, w := range found {
					h.note("[%d]: %s", j.id, w.Met.String())
				}
			}
		}
	}()
	return nil
}

func foreground(_ context.Context, h *host, argument string) error {
	j, err := h.find(argument)
	if err == nil {
		h.toFront(j)
	}
	return err
}

func kill(_ context.Context, h *host, argument string) error {
	j, err := h.find(argument)
	if err == nil {
		h.terminate(j)
	}
	return err
}

func changeDir(ctx context.Context, h *host, argument string) error {
	return h.session.UpdateEnvironment(ctx, messages.UpdateEnvironment{Dir: new(filepath.Clean(argument))})
}

func applyPatch(_ context.Context, h *host, argument string) error {
	text, err := os.ReadFile(argument)
	if err == nil {
		h.start(messages.ExecCommand{Argv: []string{"apply_patch", string(text)}}, "apply_patch "+argument)
	}
	return err
}

func grants(ctx context.Context, h *host, _ string) error {
	grants, err := h.session.Grants(ctx)
	if err == nil && len(grants) == 0 {
		h.note("Nothing is allowed for this session.")
	}
	for _, g := range grants {
		h.note("%s  %s\n    since %s: %s", g.ID, g.Display, g.Granted.Format("15:04:05"), g.Remembers)
	}
	return err
}

func revoke(ctx context.Context, h *host, argument string) error {
	err := h.session.Revoke(ctx, messages.RevokeGrant{Grant: messages.GrantID(argument)})
	if err == nil {
		h.note("%s is forgotten: you will be asked again about the next such command.", messages.Visible(argument))
	}
	return err
}

func openWindow(_ context.Context, h *host, _ string) error {
	if h.window == nil {
		w, err := window.New(h.rt, window.Options{})
		if err != nil {
			return err
		}
		at, err := w.Serve("127.0.0.1:0", nil)
		if err != nil {
			w.Close()
			return err
		}
		h.window, h.windowAt = w, at
	}
	h.note("Open %s", h.window.Link(h.windowAt))
	return nil
}

func help(_ context.Context, h *host, _ string) error {
	for _, c := range commands() {
		h.note("%-15s%s", ":"+c.name+" "+c.argument, c.help)
	}
	h.note("%-15s%s", "Ctrl-Z", "put the command in front into the background; every other key goes to it")
	h.note("%-15s%s", "Ctrl-D", "on an empty line: :quit")
	h.note("%-15s%s", "anything else", "a script for your shell; each has a shell of its own")
	return nil
}
