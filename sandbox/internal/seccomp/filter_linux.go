//go:build amd64 || arm64

package seccomp

import (
	"cmp"
	"slices"

	"golang.org/x/sys/unix"
)

// Offsets in seccomp_data.
const (
	dataCall         = 0
	dataArchitecture = 4
	dataArguments    = 16 // of 8 bytes each, the lower half first
)

// farthest is how far a conditional jump reaches; JA reaches everywhere.
const farthest = 255

type code = []unix.SockFilter

// Filter compiles the rules of a kind. It takes some ten microseconds, so keep the result. For architectures other than
// amd64 and arm64 there is no filter, and it returns nil.
func Filter(k Kind) []unix.SockFilter { return compile(Rules(k)) }

func compile(rules []Rule) code {
	return slices.Concat(code{
		load(dataArchitecture),
		jump(unix.BPF_JEQ, architecture, 1, 0),
		result(unix.SECCOMP_RET_KILL_PROCESS),
		load(dataCall),
	}, search(spans(rules)))
}

// span is a range of system call numbers with the same rules. It ends where the next one begins.
type span struct {
	first uint32
	leaf  code
}

func spans(rules []Rule) []span {
	rules = slices.Clone(rules)
	slices.SortStableFunc(rules, func(a, b Rule) int { return cmp.Compare(a.Call, b.Call) })
	all := []span{{0, allowed()}}
	for i := 0; i < len(rules); {
		end := i
		for end < len(rules) && rules[end].Call == rules[i].Call {
			end++
		}
		all = follow(all, span{rules[i].Call, leaf(rules[i:end])})
		all = follow(all, span{rules[i].Call + 1, allowed()})
		i = end
	}
	return follow(all, span{firstMissing, code{failure(unix.ENOSYS)}})
}

// follow adds a span. It may replace the last one, or extend it.
func follow(all []span, next span) []span {
	if all[len(all)-1].first == next.first {
		all = all[:len(all)-1]
	}
	if len(all) > 0 && slices.Equal(all[len(all)-1].leaf, next.leaf) {
		return all
	}
	return append(all, next)
}

// search compiles the tree over the spans. The number is in the accumulator.
func search(all []span) code {
	if len(all) == 1 {
		return all[0].leaf
	}
	middle := len(all) / 2
	low, high := search(all[:middle]), search(all[middle:])
	over := uint32(len(low))
	if over <= farthest {
		return slices.Concat(code{jump(unix.BPF_JGE, all[middle].first, uint8(over), 0)}, low, high)
	}
	far := unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: over}
	return slices.Concat(code{jump(unix.BPF_JGE, all[middle].first, 0, 1), far}, low, high)
}

// leaf compiles the rules of one call. A rule without conditions ends them.
func leaf(rules []Rule) (body code) {
	for _, rule := range rules {
		body = append(body, test(rule)...)
		if len(rule.When) == 0 {
			return body
		}
	}
	return append(body, allowed()...)
}

// test compiles one rule: it returns the errno if all conditions hold, and otherwise goes on after itself.
func test(rule Rule) (body code) {
	var misses []int // the jumps that leave the rule
	for _, c := range rule.When {
		at := uint32(dataArguments + 8*c.Arg)
		if c.Pointer {
			body = append(body, load(at), jump(unix.BPF_JEQ, 0, 0, 2), load(at+4), jump(unix.BPF_JEQ, 0, 0, 0))
			misses = append(misses, len(body)-1)
			continue
		}
		body = append(body, load(at))
		if c.Mask != 0 {
			body = append(body, unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: c.Mask})
		}
		if c.Not {
			body = append(body, jump(unix.BPF_JEQ, c.Want, 0, 0))
			misses = append(misses, len(body)-1)
		} else {
			body = append(body, jump(unix.BPF_JEQ, c.Want, 1, 0), unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA})
			misses = append(misses, len(body)-1)
		}
	}
	body = append(body, failure(rule.Errno))
	for _, miss := range misses {
		over := len(body) - miss - 1
		if body[miss].Code == unix.BPF_JMP|unix.BPF_JA {
			body[miss].K = uint32(over)
		} else {
			body[miss].Jt = uint8(over)
		}
	}
	return body
}

func allowed() code { return code{result(unix.SECCOMP_RET_ALLOW)} }

func failure(errno unix.Errno) unix.SockFilter {
	return result(unix.SECCOMP_RET_ERRNO | uint32(errno)&unix.SECCOMP_RET_DATA)
}

func result(value uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value}
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jump(test uint16, value uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, K: value, Jt: yes, Jf: no}
}
