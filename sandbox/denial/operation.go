package denial

import (
	"regexp"

	"github.com/execbus/execbus/messages"
)

// operation is what the command tried to do, as a line reports it.
type operation int

const (
	unclear operation = iota
	read
	write
	run
	network
	socket     // of another program
	privileged // a system call that concerns neither a file nor the network
)

func (o operation) String() string {
	return [...]string{"", "read", "write", "run", "use the network", "use a socket", "a system call"}[o]
}

// readOnly matches errors that only a write gets.
var readOnly = lazily(`(?i)read-only file ?system|\bEROFS\b|failed to write file`)

// hints are signs of an operation, the strongest first.
var hints = []struct {
	operation operation
	pattern   func() *regexp.Regexp
}{
	{write, readOnly},
	{socket, lazily(`(?i)\bunix:|\bdial unix|\bAF_UNIX\b|unix (domain )?socket|on socket|\.sock\b`)},
	{network, lazily(`(?i)\bsockets?\b|\bconnect\b|connect to|\bbind\b|\blisten|\bsendto\b|\bsendmsg\b|\bresolve|\bdial (tcp|udp|unix)|urlopen|` +
		`\bgetaddrinfo|daemon|immediate connect fail`)},
	{privileged, lazily(`(?i)\bptrace|process_vm|\bunshare|\bmount(ing)?\b|\bumount|\bkill\b|\bsetns|\bnsenter|\breboot|\bkeyctl|` +
		`\badd_key|\bbpf\b|perf_event|\bchroot|\bsethostname|sysctl|user namespace|new namespace|uid map|insmod|\bmodprobe|` +
		`\bsettimeofday|\bio_uring|\brenice|setpriority|\bmlock|\bTIOCSTI`)},
	{write, lazily(`(?i)\bcreat|\btouch|\bremov(e|ing)\b|\bdelet(e|ing)|\bunlink|\brm(dir)?\b|\bmkdir|\bmkdtemp|\bmkfifo|\bmknod|\bmov(e|ing)\b|` +
		`\brename|\blink\b|\bsymlink|\bln\b|\bwrit(e|able|ing)\b|\btruncat|\bchmod|changing permissions|\bchown|changing ownership|changing group|` +
		`setting times|\bpreserving|\butime|\block\b|cannot make|\bsav(e|ing)\b|\bupdat(e|ing)|\binstall|\bappend|\bxattr|setting attribute|` +
		`\btee:|sort: open failed|open database|\bcopy_?file|\btar: .*cannot open|output file|\bunpack|\bsymlinkat|\bopen temp`)},
	{read, lazily(`(?i)\bcannot access|for reading|\breading\b|cannot open directory|\bopendir|\bscandir|\breaddir|\blstat|\bstat\b|\breadlink|` +
		`\b(cat|head|tail|ls|wc|stat|less|diff|find|[ezf]?grep|sort|cmp|file|du|od|xxd|md5sum|sha256sum|cd|source): |: cd: |can't cd|\bls: `)},
}

// operationOf finds in a line which operation was tried.
func operationOf(line string, status messages.ExitStatus) operation {
	if code, _ := status.Code(); code == 126 && !readOnly().MatchString(line) { // a shell could not execute a program
		return run
	}
	line = absolute().ReplaceAllString(quoted().ReplaceAllString(line, "''"), " ") // names of files say nothing
	for _, hint := range hints {
		if hint.pattern().MatchString(line) {
			return hint.operation
		}
	}
	return unclear
}
