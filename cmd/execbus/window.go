package main

import (
	"crypto/tls"
	"fmt"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/window"
)

// openWindow opens the page for people, if a setting asks for it, and prints its links. The returned function closes it.
func (c *config) openWindow(rt *execbus.Runtime, std streams) (closing func(), err error) {
	if c.window == "" {
		return nil, nil
	}
	var secure *tls.Config
	if c.windowCert != "" {
		own, err := tls.LoadX509KeyPair(c.windowCert, c.windowKey)
		if err != nil {
			return nil, err
		}
		secure = &tls.Config{Certificates: []tls.Certificate{own}}
	}
	w, err := window.New(rt, window.Options{Hosts: c.windowHosts, Secure: secure != nil, Insecure: c.windowInsecure})
	if err != nil {
		return nil, err
	}
	base, err := w.Serve(c.window, secure)
	if err != nil {
		w.Close()
		return nil, err
	}
	fmt.Fprintf(std.err, "execbus: the window, for one browser: %s\n", w.Link(base))
	if c.windowViewers {
		fmt.Fprintf(std.err, "execbus: the window, for viewers: %s\n", w.ViewersLink(base))
	}
	return w.Close, nil
}
