package hosts

import "net/netip"

// Class is a kind of address.
type Class string

// The classes.
const (
	Public     Class = "public"
	Private    Class = "private"    // a network of an organisation's own, or set aside by the internet's registries
	Loopback   Class = "loopback"   // this machine
	LinkLocal  Class = "link-local" // the machines on the same link
	Metadata   Class = "metadata"   // the service that hands a cloud machine its credentials
	Multicast  Class = "multicast"  // many machines at once
	Unspecific Class = "unspecified"
)

// rangesOf has the ranges of each class but Public; the first that contains an address counts.
var rangesOf = []struct {
	class  Class
	ranges []netip.Prefix
}{
	{Metadata, prefixes("169.254.169.254/32", "169.254.170.2/32", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32",
		"fd00:ec2::/32", "fd20:ce::254/128")},
	{Loopback, prefixes("127.0.0.0/8", "::1/128")},
	{LinkLocal, prefixes("169.254.0.0/16", "fe80::/10")},
	{Multicast, prefixes("224.0.0.0/4", "255.255.255.255/32", "ff00::/8")},
	{Unspecific, prefixes("0.0.0.0/8", "::/128")},
	// What the registries of special-purpose addresses (RFC 6890) keep from the public internet.
	{Private, prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
		"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "2001:db8::/32", "3fff::/20", "2001::/23")},
}

// embedding are the ranges of IPv6 in whose addresses an IPv4 address stands, and at which byte.
var embedding = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12}, // NAT64
	{netip.MustParsePrefix("2002::/16"), 2},     // 6to4
	{netip.MustParsePrefix("::/96"), 12},        // compatible with IPv4
}

// global is where addresses of the public internet are in IPv6.
var global = netip.MustParsePrefix("2000::/3")

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// ClassOf is the class of an address. An address of IPv6 that leads to one of IPv4 has the class of that.
func ClassOf(address netip.Addr) Class {
	address = address.Unmap().WithZone("")
	for _, c := range rangesOf {
		for _, prefix := range c.ranges {
			if prefix.Contains(address) {
				return c.class
			}
		}
	}
	if address.Is4() {
		return Public
	}
	for _, e := range embedding {
		if e.prefix.Contains(address) {
			bytes := address.As16()
			return ClassOf(netip.AddrFrom4([4]byte(bytes[e.at : e.at+4])))
		}
	}
	if global.Contains(address) {
		return Public
	}
	return Private
}
