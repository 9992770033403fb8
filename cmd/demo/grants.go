package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/execbus/execbus/messages"
)

func showPolicy(h *host, _ string) (question, error) {
	h.view.answer(h.policies.String())
	return nil, nil
}

func listGrants(h *host, _ string) (question, error) {
	return func(ctx context.Context) (string, error) {
		grants, err := h.session.Grants(ctx)
		if err != nil {
			return "", err
		}
		if len(grants) == 0 {
			return "Nothing is allowed for this session.\n", nil
		}
		var b strings.Builder
		for _, g := range grants {
			fmt.Fprintf(&b, "%s  %s\n    since %s: %s\n", g.ID, g.Display, g.Granted.Format("15:04:05"), g.Remembers)
		}
		return b.String(), nil
	}, nil
}

func revokeGrant(h *host, arguments string) (question, error) {
	if arguments == "" || strings.Contains(arguments, " ") {
		return nil, badUsage("which grant? :grants lists them")
	}
	return func(ctx context.Context) (string, error) {
		if err := h.session.Revoke(ctx, messages.RevokeGrant{Grant: messages.GrantID(arguments)}); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s is forgotten: you will be asked again about the next such command.\n", messages.Visible(arguments)), nil
	}, nil
}
