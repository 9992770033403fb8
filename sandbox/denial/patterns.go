package denial

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
)

// lazily returns a pattern that is compiled when it is first used, because most programs that import this package never
// look at a denial.
func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// refusals match the kernel's answers, and mentions match words for a sandbox.
var (
	refusals = lazily(`(?i)operation not permitted|permission denied|read-only file system|failed to write file|unable to open database|` +
		`\b(connect|listen|bind|send) (EPERM|EACCES)\b`)
	// taken matches the answers to who wants to make, replace or remove something where a placeholder or a mount is.
	taken = lazily(`(?i)file exists|not a directory|directory nonexistent|overwrite non-directory|device or resource busy|\b(EEXIST|ENOTDIR|EBUSY)\b`)
	busy  = lazily(`(?i)device or resource busy|\bEBUSY\b`)
	// mentions match lines that say that a sandbox stopped something. The bare word does not: it also names tests and directories.
	mentions = lazily(`(?i)(\b(den(y|ied)|block(s|ed)|forb(ids|idden)|refus(es|ed)|prohibit(s|ed)|not (permitted|allowed|usable)|violat\w+)\b.*\b(sandbox|seccomp|landlock))|` +
		`(\b(sandbox|seccomp|landlock)\b.*\b(den(y|ied)|block(s|ed)|forb(ids|idden)|refus(es|ed)|prohibit(s|ed)|not (permitted|allowed|usable)|violat\w+)\b)|no usable sandbox`)
	// unreachable matches what a command says when it has no network.
	unreachable = lazily(`(?i)(could not|couldn't|unable to|failed to) resolve (the )?(host|proxy|address|name\b|server|domain)|failure resolving|name resolution|` +
		`name or service not known|could not translate host name|failed to lookup address|unknown ?host|network is unreachable|\bENETUNREACH\b|\bEAI_AGAIN\b|` +
		`getaddrinfo ENOTFOUND|no such host|address family not supported|failed to connect to \S+ port \d`)
	// unanswered matches what a command says when nobody listens at an address, or nobody whom it can reach.
	unanswered = lazily(`(?i)connection refused|\bECONNREFUSED\b|couldn't connect to server|cannot connect to the docker daemon`)
	// elsewhere matches refusals by others: another machine, a database, a program that has rules of its own.
	elsewhere = lazily(`(?i)permission denied \((publickey|password|keyboard-interactive|gssapi|hostbased)|` +
		`permission denied, please try again|permission denied (for|to|by|from)\b|["'\x60](permission denied|operation not permitted|read-only file system)["'\x60]`)
	// kernels match the kernel's refusals, which a program has not made up.
	kernels = lazily(`(?i)operation not permitted|permission denied|read-only file system|\bE(PERM|ACCES|ROFS)\b`)
	// otherwise matches answers of the kernel that are no refusals.
	otherwise = lazily(`(?i)no space left|no such file|is a directory|file exists|not a directory|too large|quota exceeded|input/output error|broken pipe|text file busy`)
)

// fragments are parts of all matches of the patterns above. Lines without one are skipped without a closer look.
var fragments = [][]byte{[]byte("permi"), []byte("read-only"), []byte("failed to"), []byte("seccomp"), []byte("sandbox"), []byte("landlock"),
	[]byte("eperm"), []byte("eacces"), []byte("resol"), []byte("known"), []byte("unreach"), []byte("eai_again"), []byte("no such host"), []byte("address family"),
	[]byte("file exists"), []byte("directory"), []byte("busy"), []byte("eexist"), []byte("enotdir"), []byte("protects"),
	[]byte("refused"), []byte("connect"), []byte("translate"), []byte("lookup"), []byte("unknown"), []byte("enotfound"), []byte("unable to open")}

// maxLines bounds the lines of an output that are looked at closely, and maxLine the bytes of each.
const (
	maxLines = 64
	maxLine  = 4 << 10
)

// suspiciousLines are the lines of an output that may report a refusal: the first and the last of them, if there are many.
func suspiciousLines(output []byte) []string {
	var first, last []string
	for line := range bytes.SplitSeq(output, []byte("\n")) {
		at := suspicious(line)
		if at < 0 {
			continue
		}
		line = line[max(0, at-maxLine/2):min(len(line), at+maxLine/2)]
		text := strings.TrimRight(escapes().ReplaceAllString(string(line), ""), "\r ")
		if len(first) < maxLines/2 {
			first = append(first, text)
			continue
		}
		if len(last) == maxLines/2 {
			last = last[1:]
		}
		last = append(last, text)
	}
	return append(first, last...)
}

// escapes match the sequences that colour a terminal.
var escapes = lazily("\x1b\\[[0-9;]*[A-Za-z]")

// suspicious is the position in a line of a fragment that may report a refusal; negative if there is none.
func suspicious(line []byte) int {
	line = bytes.ToLower(line)
	for _, fragment := range fragments {
		if at := bytes.Index(line, fragment); at >= 0 {
			return at
		}
	}
	return -1
}
