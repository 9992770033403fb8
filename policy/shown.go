package policy

import (
	"slices"
	"strings"
	"unicode"

	"github.com/execbus/execbus/messages"
	"golang.org/x/net/idna"
)

// Bounds of what a question shows.
const (
	maxShown     = 10      // segments
	segmentBytes = 1 << 10 // of one segment's words
	maxHosts     = 4       // of one segment
	hostBytes    = 253     // of a name, as in the DNS
)

// shown are the commands that run, those that are asked about first, and how many more there are.
func (m *maker) shown() (all []messages.Segment, more int) {
	order := make([]int, 0, len(m.segments))
	for _, asked := range []bool{true, false} {
		for i := range m.segments {
			if m.asks(i) == asked {
				order = append(order, i)
			}
		}
	}
	for _, i := range order[:min(len(order), maxShown)] {
		words := m.commands[i].written
		if words == nil {
			words = m.commands[i].words
		}
		segment := messages.Segment{Display: displayed(words, segmentBytes), Hosts: hostNames(words)}
		if m.asks(i) {
			segment.Why = "it " + m.whySegment(i)
		}
		all = append(all, segment)
	}
	return all, len(order) - len(all)
}

func (m *maker) asks(i int) bool { return !m.segments[i].idle && m.segments[i].verdict == ask }

// hostNames are the host names among words that may not be what they look like, with their form in ASCII. In a URL or after
// an @ these are all names beyond ASCII; elsewhere they are names that mix letters or consist of look-alikes.
func hostNames(words []string) (all []string) {
	left := segmentBytes
	for _, word := range words {
		if left -= len(word); left < 0 {
			break
		}
		if strings.IndexFunc(word, func(r rune) bool { return r > unicode.MaxASCII }) < 0 {
			continue
		}
		for text := range strings.FieldsFuncSeq(word, func(r rune) bool { return strings.ContainsRune(" \t\n\"'`<>()=,;|&", r) }) {
			host := hostOf(text)
			ascii, err := idna.Lookup.ToASCII(host)
			if err != nil {
				ascii, err = idna.Punycode.ToASCII(host)
			}
			if line := messages.Visible(host) + " is " + messages.Visible(ascii); host != "" && err == nil && !slices.Contains(all, line) && len(all) < maxHosts {
				all = append(all, line)
			}
		}
	}
	return all
}

// hostOf returns a host name in a text that may not be what it looks like; empty if there is none.
func hostOf(text string) string {
	_, rest, named := strings.Cut(text, "://")
	if !named {
		rest = text
	}
	rest, _, _ = strings.Cut(rest, "/")
	rest, _, _ = strings.Cut(rest, "?")
	rest, _, _ = strings.Cut(rest, "#")
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		rest, named = rest[at+1:], true
	}
	host, _, _ := strings.Cut(rest, ":")
	foreign := strings.IndexFunc(host, func(r rune) bool { return r > unicode.MaxASCII }) >= 0
	if len(host) > hostBytes || !foreign || !named && !(strings.Contains(host, ".") && deceives(host)) {
		return ""
	}
	return host
}

// confusables are letters beyond Latin that look like Latin ones in most fonts.
const confusables = "аеорсухіјѕԁԛԝһӏьвкмнтгпαορνικτυχ"

// deceives reports whether a label of a host name mixes letters that look alike, or consists only of such letters.
func deceives(host string) bool {
	for label := range strings.SplitSeq(host, ".") {
		alike, other, ascii := 0, 0, 0
		for _, r := range label {
			switch {
			case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z':
				ascii++
			case strings.ContainsRune(confusables, unicode.ToLower(r)):
				alike++
			case r > unicode.MaxASCII && messages.Lookalike(r):
				other++
			}
		}
		if alike+other > 0 && (ascii > 0 || other == 0) {
			return true
		}
	}
	return false
}
