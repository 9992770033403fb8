package isolate

import (
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/execbus/execbus/sandbox/internal/confine"
)

// deny covers a place that must not be read. If other places are inside it, the cover has a name for each of them, and
// cannot be listed.
func (s *space) deny(place confine.Place) {
	what := denying + place.Path
	inside := s.inside(place)
	if len(inside) == 0 {
		s.coverWith(blankFor(place.Directory), what, place.Path)
		return
	}
	cover := s.fresh("tmpfs", harmless|unix.MOUNT_ATTR_NOEXEC, "mode", "111", "size", "64k")
	made := map[string]bool{".": true}
	for _, one := range inside {
		name := strings.TrimPrefix(one.Path, place.Path+"/")
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
	s.attach(what, cover, s.open(what, place.Path).Word(0), "")
}

// inside returns the places that were taken from inside another one, the less specific ones first.
func (s *space) inside(place confine.Place) (inside []confine.Place) {
	for _, p := range s.plan.Places {
		if s.taken[p.Path] != nil && p.Path != place.Path && confine.Within(p.Path, place.Path) {
			inside = append(inside, p)
		}
	}
	slices.SortStableFunc(inside, func(a, b confine.Place) int { return confine.Depth(a.Path) - confine.Depth(b.Path) })
	return inside
}
