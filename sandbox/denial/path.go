package denial

import (
	"path/filepath"
	"regexp"
	"strings"
)

var (
	quoted = lazily("'([^']+)'|\"([^\"]+)\"|‘([^’]+)’|`([^`']+)['`]|“([^”]+)”")
	// url is the address of something that is no file here.
	url = lazily(`(?i)\b[a-z][a-z0-9+.-]*://[^\s'"]*`)
	// absolute is a path in running text without addresses.
	absolute = lazily(`(?:^|[\s(=:,\[])((?:\.{0,2}|~)/[^\s:;,"'()\]]*)`)
	// speaker is the prefix of a program's messages: its name, and the line of a script.
	speaker = lazily(`^(?:[\w./+-]+|\[[^\]]+\]): (?:line \d+: |\d+: )?`)
	// answer is where the kernel's answer begins.
	answer = lazily(`(?i)[:(]?\s*\(?(\[errno \d+\] )?(E(PERM|ACCES|ROFS)\b.*|operation not permitted|permission denied|read-only file system|file exists|not a directory|directory nonexistent|device or resource busy)`)
)

// named is a path that a line names.
type named struct {
	path string
	// relative says that the path was relative to a directory which is only probably the command's.
	relative bool
	moved    bool // it is relative to a directory that the command names
}

// paths are the paths that a line reports as refused, the likeliest first.
func paths(line, dir string) []named {
	var found []named
	add := func(path string) {
		path = strings.TrimRight(path, ".")
		if path == "" || strings.ContainsAny(path, "\x00*|<>") || strings.Contains(path, "://") {
			return
		}
		relative := !filepath.IsAbs(path)
		if relative {
			if strings.HasPrefix(path, "~") {
				return
			}
			path = filepath.Join(dir, path)
		}
		found = append(found, named{path: filepath.Clean(path), relative: relative})
	}
	text := line
	at := answer().FindStringIndex(line)
	spoken := at == nil || strings.Contains(strings.TrimSpace(line[:at[0]]), ": ")
	if spoken { // otherwise the rest of the line is all there is
		text = speaker().ReplaceAllString(line, "")
	}
	quotes := quoted().FindAllStringSubmatch(text, -1)
	for i := len(quotes) - 1; i >= 0; i-- { // of "move 'a' to 'b'" the last
		for _, name := range quotes[i][1:] {
			if strings.HasPrefix(name, "/") || !strings.ContainsAny(name, " \t") {
				add(name)
			}
		}
	}
	bare := url().ReplaceAllString(quoted().ReplaceAllString(text, "''"), " ")
	for _, match := range absolute().FindAllStringSubmatch(bare, -1) {
		add(match[1])
	}
	if len(found) > 0 {
		return found
	}
	if name := beforeAnswer(bare, spoken); name != "" {
		add(name)
	}
	return found
}

// beforeAnswer is the relative path right before the kernel's answer: "bash: line 1: file: Permission denied". A single
// word counts as one only after a program's name.
func beforeAnswer(text string, spoken bool) string {
	at := answer().FindStringIndex(text)
	if at == nil {
		return ""
	}
	parts := strings.Split(strings.TrimSpace(text[:at[0]]), ": ")
	for i := len(parts) - 1; i >= 0; i-- {
		part := strings.TrimSpace(strings.TrimSuffix(parts[i], ":"))
		word := part[strings.LastIndexByte(part, ' ')+1:]
		if fileName().MatchString(word) && (word == part && spoken || strings.ContainsAny(word, "./")) {
			return word
		}
	}
	return ""
}

var fileName = lazily(`^[\w.@+/-]+$`)

// addresses match hosts or sockets in a line, the likeliest first.
var addresses = []func() *regexp.Regexp{
	lazily(`unix:(?://)?(/[^\s:'"]+)`),
	lazily(`on socket "([^"]+)"`),
	lazily(`server at "([^"]+)"`),
	lazily(`/dev/(?:tcp|udp)/([\w.-]+)`),
	lazily(`(?i)resolve (?:host(?:name| address)?)?:? ?['"‘]?([A-Za-z0-9][\w.-]*)`),
	lazily(`(?i)lookup ([A-Za-z0-9][\w.-]*)`),
	lazily(`(?i)getaddrinfo \w+ ([A-Za-z0-9][\w.-]*)`),
	lazily(`(?i)dial (?:tcp|udp)\d? (\[?[\w.:-]+\]?:\d+)`),
	lazily(`(?i)connect \w+ ([\w.-]+:\d+)`),
	lazily(`(?i)(?:connect(?:ing)?|connect fail|connection) (?:to|for) (?:host |address )?['"]?([\w.-]+(?: port \d+|:\d+)?)`),
	lazily(`\b(\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?)\b`),
	lazily(`\w+://(?:[^@/\s]*@)?([\w.-]+(?::\d+)?)`),
}

// address is the host or socket that a line names; empty if it names none.
func address(line string) string {
	for _, pattern := range addresses {
		if match := pattern().FindStringSubmatch(line); match != nil {
			return strings.Replace(strings.TrimRight(match[1], ".:"), " port ", ":", 1)
		}
	}
	return ""
}
