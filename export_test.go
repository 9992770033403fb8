package execbus

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/network"
	"github.com/execbus/execbus/spool"
	"github.com/execbus/execbus/view"
)

// Impatient gives the host's code so long to answer, and to take what waits for it.
func (o Options) Impatient(answer, flush time.Duration) Options {
	o.patience.answer, o.patience.flush = answer, flush
	return o
}

// ViewsWithin gives each view so long to be made.
func (o Options) ViewsWithin(patience time.Duration) Options {
	o.patience.view = patience
	return o
}

// Unhurried lets views take long, unless ViewsWithin says otherwise: machines that run tests may be slow.
func (o Options) Unhurried() Options {
	o.patience.view = cmp.Or(o.patience.view, time.Minute)
	return o
}

// publicAddress is what every name leads to on the internet of tests.
var publicAddress = netip.MustParseAddr("93.184.216.34")

type everywhere struct{}

// LookupNetIP implements network.Resolver.
func (everywhere) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{publicAddress}, nil
}

// OnInternet makes a server all of the internet: every name and every public address leads to it, on every port.
func (o Options) OnInternet(server string) Options {
	o.internet = func(n *network.Options) {
		n.Resolver, n.Upstream = everywhere{}, nil
		n.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", server)
		}
	}
	return o
}

// AskTimeout is how long connections wait for a person.
func (o Options) AskTimeout(d time.Duration) Options {
	before := o.internet
	o.internet = func(n *network.Options) {
		before(n)
		n.AskTimeout = d
	}
	return o
}

// CreateSpool replaces the files of a spool.
func CreateSpool(o *SpoolOptions, create func() (spool.Storage, error)) { o.create = create }

// ErrViewBounds ends a view that would be too large or take too long; FeedScreen and TextWithin make one until a context ends.
var ErrViewBounds = errViewBounds

func FeedScreen(ctx context.Context, screen *view.Screen, output []byte) error {
	return feed(ctx, screen, output)
}

func TextWithin(ctx context.Context, output []byte) ([]byte, error) {
	text, _, err := textOf(ctx, output, messages.Size{}, false)
	return text, err
}
