package main

import (
	"crypto/tls"
	"fmt"

	"github.com/execbus/execbus/window"
)

// openWindow opens the page for people, if a setting asks for it, and prints its links. The returned function closes it.
func (c *config) openWindow(make func(window.Options) (*window.Window, error), std streams) (closing func(), err error) {
	if c.window == "" {
		return func() {}, nil
	}
	var secure *tls.Config
	if c.windowCert != "" {
		own, err := tls.LoadX509KeyPair(c.windowCert, c.windowKey)
		if err != nil {
			return nil, err
		}
		secure = &tls.Config{Certificates: []tls.Certificate{own}}
	}
	w, err := make(window.Options{Hosts: c.windowHosts, Secure: secure != nil, Insecure: c.windowInsecure})
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

// misusedWindow says what is wrong with the settings of a window; empty if nothing is.
func (c *config) misusedWindow() string {
	switch {
	case c.window == "" && (c.windowViewers || c.windowInsecure || c.windowCert != "" || len(c.windowHosts) > 0):
		return "--window-viewers, --window-host, --window-cert and --window-insecure need --window"
	case (c.windowCert == "") != (c.windowKey == ""):
		return "--window-cert and --window-key go together"
	}
	return ""
}
