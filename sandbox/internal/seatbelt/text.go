package seatbelt

// base allows what every confined command may do: run programs, read, use its terminal, and do what the system's libraries do
// when a program starts. It denies everything else.
const base = `(version 1)
(deny default)

; programs
(allow process-exec)
(allow process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read)
(allow user-preference-read)
(allow ipc-posix-sem)
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership")
  (global-name "com.apple.system.logger")
  (global-name "com.apple.system.notification_center"))

; reading, and what is written by everybody
(allow file-read*)
(allow file-write-data (require-all (path "/dev/null") (vnode-type CHARACTER-DEVICE)))
(allow file-write-data (require-all (path "/dev/zero") (vnode-type CHARACTER-DEVICE)))

; terminals: its own, and those that it opens
(allow pseudo-tty)
(allow file-read* file-write* file-ioctl (literal "/dev/tty") (literal "/dev/ptmx"))
(allow file-read* file-write* (require-all (regex #"^/dev/ttys[0-9]+$") (extension "com.apple.sandbox.pty")))
(allow file-ioctl (regex #"^/dev/ttys[0-9]+$"))

; what may be written, and the sockets
`

// network allows connections between machines. It does not cover unix sockets.
const network = `
; the network
(allow network-outbound (remote ip))
(allow network-inbound (local ip))
(allow network-bind (local ip))
(allow network-outbound (literal "/private/var/run/mDNSResponder"))
(allow system-socket)
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.networkd")
  (global-name "com.apple.trustd.agent")
  (global-name "com.apple.dnssd.service"))
`
