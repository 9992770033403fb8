package hosts

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/execbus/execbus/messages"
	"golang.org/x/net/idna"
)

// Host is a name or an address in its only spelling. It can be compared and can be a key.
type Host struct {
	name    string
	address netip.Addr
}

// Bounds of names, as in the DNS.
const (
	maxName  = 253
	maxLabel = 63
)

// Parse reads a host as a program writes it: a name, an IPv4 address as four decimal numbers, or an IPv6 address, which may stand
// in brackets. Names become ASCII in lower case, by the lookup profile of IDNA, without a dot at the end. An IPv4 address that is
// mapped into IPv6 is the IPv4 address. Every other way to write a number, and a zone, is an error.
func Parse(text string) (Host, error) {
	// An address can have a name's form after the mapping only, as full-width digits have; so the mapping comes first.
	inner, bracketed := strings.CutPrefix(text, "[")
	if bracketed {
		var closed bool
		if inner, closed = strings.CutSuffix(inner, "]"); !closed || !strings.Contains(inner, ":") {
			return Host{}, errors.New("brackets hold an IPv6 address")
		}
	}
	if strings.Contains(inner, ":") {
		return parseAddress(inner)
	}
	name, err := canonical(text)
	if err != nil {
		return Host{}, err
	}
	if endsInNumber(name) {
		return parseAddress(name)
	}
	return Host{name: name}, nil
}

func parseAddress(text string) (Host, error) {
	address, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return Host{}, errors.New("it is a number but no address; write an IPv4 address as four decimal numbers without zeros before them")
	case address.Zone() != "":
		return Host{}, errors.New("an address with a zone is one of this machine's links")
	}
	return Host{address: address.Unmap()}, nil
}

// canonical makes a name ASCII. A plain one has one spelling in lower case; IDNA would refuse some that exist, with an underscore or
// two hyphens in the third place.
func canonical(text string) (string, error) {
	name := text
	if !plainName(text) {
		var err error
		if name, err = idna.Lookup.ToASCII(text); err != nil || !utf8.ValidString(text) {
			return "", errors.New("it is no host name")
		}
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if name == "" || len(name) > maxName {
		return "", fmt.Errorf("a host name has 1 to %d bytes", maxName)
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > maxLabel {
			return "", fmt.Errorf("each part of a host name has 1 to %d bytes", maxLabel)
		}
		if strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") {
			return "", errors.New("a part of a host name begins or ends with a hyphen")
		}
	}
	return name, nil
}

// plainName reports whether a text consists of ASCII letters, digits, hyphens, underscores and dots, and nothing in it is Punycode.
func plainName(text string) bool {
	for i := range len(text) {
		c := text[i] | 0x20
		if (c < 'a' || c > 'z') && (text[i] < '0' || text[i] > '9') && text[i] != '-' && text[i] != '_' && text[i] != '.' {
			return false
		}
	}
	return !strings.Contains(strings.ToLower(text), "xn--")
}

// endsInNumber reports whether some resolver would take a name for an address: its last part is a number, decimal or hexadecimal.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	digits, hex := strings.CutPrefix(last, "0x")
	if hex {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// Address is the address that a host is, and false for a name.
func (h Host) Address() (netip.Addr, bool) { return h.address, h.address.IsValid() }

// String is the name or the address, without brackets.
func (h Host) String() string {
	if h.address.IsValid() {
		return h.address.String()
	}
	return h.name
}

// local reports whether a name means this machine to every resolver (RFC 6761).
func (h Host) local() bool { return h.name == "localhost" || strings.HasSuffix(h.name, ".localhost") }

// Authority is the host with a port: "example.com:443", "[2001:db8::1]:443".
func (h Host) Authority(port uint16) string {
	if h.address.Is6() {
		return netip.AddrPortFrom(h.address, port).String()
	}
	return h.String() + ":" + strconv.Itoa(int(port))
}

// ParseAuthority reads a host and a port, with a colon between them. The port is decimal, from 1, without zeros before it.
func ParseAuthority(text string) (Host, uint16, error) {
	colon := strings.LastIndexByte(text, ':')
	if colon < 0 {
		return Host{}, 0, errors.New("it has no port")
	}
	host := text[:colon]
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		return Host{}, 0, errors.New("an IPv6 address stands in brackets where a port follows")
	}
	port, err := parsePort(text[colon+1:])
	if err != nil {
		return Host{}, 0, err
	}
	h, err := Parse(host)
	return h, port, err
}

func parsePort(text string) (uint16, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 || strconv.FormatUint(port, 10) != text {
		return 0, fmt.Errorf("%q is no port", messages.Visible(text[:min(len(text), 20)]))
	}
	return uint16(port), nil
}
