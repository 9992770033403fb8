package isolate

import (
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/confine"
)

// deny covers a path that must not be read. If other paths are inside it, the cover has a name for each of them, and
// cannot be listed.
func (s *space) deny(rule confine.Rule) {
	what := denying + rule.Path
	inside := s.inside(rule)
	if len(inside) == 0 {
		s.coverWith(blankFor(rule.Directory), what, rule.Path)
		return
	}
	cover := s.fresh("tmpfs", harmless|unix.MOUNT_ATTR_NOEXEC, "mode", "111", "size", "64k")
	made := map[string]bool{".": true}
	for _, one := range inside {
		name := strings.TrimPrefix(one.Path, rule.Path+"/")
		var parents []string
		for dir := path.Dir(name); !made[dir]; dir = path.Dir(dir) {
			parents, made[dir] = append(parents, dir), true
		}
		for _, dir := range slices.Backward(parents) {
			s.directory(cover, dir, 0o111)
		}
		switch {
		case made[name]:
		case one.Directory:
			s.directory(cover, name, 0o111)
			made[name] = true
		default:
			s.file(cover, name, 0)
		}
	}
	s.set(what, cover.Word(0), "", readOnly, 0, 0)
	s.attach(what, cover, s.open(what, rule.Path).Word(0), "")
}

// inside returns the paths that were taken from inside another one, the less specific ones first.
func (s *space) inside(rule confine.Rule) (inside []confine.Rule) {
	for _, p := range s.plan.Rules {
		if s.taken[p.Path] != nil && p.Path != rule.Path && confine.Within(p.Path, rule.Path) {
			inside = append(inside, p)
		}
	}
	slices.SortStableFunc(inside, func(a, b confine.Rule) int { return confine.Depth(a.Path) - confine.Depth(b.Path) })
	return inside
}
