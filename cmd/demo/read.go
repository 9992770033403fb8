package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// defaultTail is how many bytes :read shows without a range.
const defaultTail = 4096

// readOutput shows remembered output.
func readOutput(h *host, arguments string) (question, error) {
	id, text, err := target(arguments)
	if err != nil {
		return nil, err
	}
	read, err := parseRange(text)
	if err != nil {
		return nil, err
	}
	read.Process = id
	return func(ctx context.Context) (string, error) {
		page, err := h.session.Read(ctx, read)
		if err != nil {
			return "", err
		}
		return showPage(page), nil
	}, nil
}

// parseRange understands N (so many bytes before the end), FROM- and FROM-END.
func parseRange(text string) (messages.ReadOutput, error) {
	if text == "" {
		return messages.ReadOutput{Tail: defaultTail}, nil
	}
	wrong := badUsage(fmt.Sprintf("%q is not a range; use for example 4096, 1000- or 1000-2000", text))
	from, to, isRange := strings.Cut(text, "-")
	first, err := strconv.ParseInt(from, 10, 64)
	if err != nil || first < 0 {
		return messages.ReadOutput{}, wrong
	}
	if !isRange {
		if first == 0 || first > messages.MaxRead {
			return messages.ReadOutput{}, badUsage(fmt.Sprintf("the last 1 to %d bytes can be read at once", messages.MaxRead))
		}
		return messages.ReadOutput{Tail: int(first)}, nil
	}
	if to == "" {
		return messages.ReadOutput{Offset: &first}, nil
	}
	end, err := strconv.ParseInt(to, 10, 64)
	if err != nil || end <= first {
		return messages.ReadOutput{}, wrong
	}
	return messages.ReadOutput{Offset: &first, Max: int(min(end-first, messages.MaxRead))}, nil
}

// showPage shows the bytes that were read, and the ranges that can be read.
func showPage(page *messages.OutputPage) string {
	var raw []byte
	for _, chunk := range page.Chunks {
		raw = append(raw, chunk.Bytes...)
	}
	var b strings.Builder
	if len(raw) > 0 {
		for row := range strings.SplitSeq(strings.TrimSuffix(string(raw), "\n"), "\n") {
			b.WriteString(execbus.CleanLine(row, false) + "\n")
		}
		first := page.Chunks[0].Offset
		fmt.Fprintf(&b, "-- bytes %d-%d of %d", first, first+int64(len(raw)), page.Total)
	} else {
		fmt.Fprintf(&b, "-- nothing of %d bytes", page.Total)
	}
	var ranges []string
	for _, r := range page.Retained {
		ranges = append(ranges, fmt.Sprintf("%d-%d", r.First, r.End))
	}
	if len(ranges) > 0 {
		b.WriteString("; can be read: " + strings.Join(ranges, ", "))
	}
	if !page.Ended {
		b.WriteString("; more may come")
	}
	return b.String() + "\n"
}
