package window

import (
	"context"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/execbus/execbus/messages"
)

// maxShown bounds the rows of an overview; a search finds the others.
const maxShown = 2000

// block is a part of a page that changes as a whole. It is markup that a template has made.
type block struct{ id, html string }

// blocks are the parts of a page, by the element that they are in, in their order.
type blocks map[string][]block

// row is what the overview says about a process.
type row struct {
	ID, Path, Session    string
	FullSession          messages.SessionID
	Process              messages.ProcessID
	Command, Dir, Owner  string
	State, Awaits        string
	Keyboard             string
	Level, Limits        string
	Live, Bad, Attention bool
	Began                string // RFC 3339
	Lasted               string // of one that has ended
	CPU, Memory, Rate    template.HTML
}

func rowOf(p *process, base string) row {
	i := p.info
	r := row{ID: "p-" + string(p.Session) + "-" + p.Process.String(), Path: base + p.Path(), Session: short(p.Session), FullSession: p.Session, Process: p.Process,
		Command: messages.Visible(i.Label), Dir: messages.Visible(i.Dir), Owner: messages.Visible(i.Owner), State: plain(string(i.State)),
		Awaits: messages.Visible(i.Awaits.String()), Live: i.End == nil, Began: i.Began.UTC().Format(time.RFC3339), Limits: limits(i.Limits)}
	switch {
	case i.Enforced != nil:
		r.Level = string(i.Enforced.Level)
	case i.PID != 0: // it was started, and nothing was demanded
		r.Level = string(messages.AssuranceNone)
	}
	if i.Keyboard != nil {
		r.Keyboard = messages.Visible(named(i.Keyboard.Name))
	}
	r.Attention = i.State == messages.StateAwaitingApproval || i.Awaits != nil && i.Awaits.Input != nil && !i.Awaits.Input.Guess
	if i.End != nil {
		code, known := i.End.Status.Code()
		r.State, r.Bad, r.Lasted = messages.Visible(i.End.Words()), !known || code != 0, i.End.Duration.Round(time.Millisecond).String()
		return r
	}
	s := p.past
	r.CPU = plot("CPU", s.cpu, 100, func(v float64) string { return fmt.Sprintf("%.0f %%", v) })
	r.Memory = plot("memory", s.memory, 0, size)
	r.Rate = plot("output", s.rate, 0, func(v float64) string { return size(v) + "/s" })
	return r
}

// short is enough of a session's name to tell it from the others.
func short(id messages.SessionID) string { return string(id[:min(len(id), 8)]) }

func limits(l messages.Limits) string {
	var parts []string
	for _, one := range []struct {
		set  bool
		text string
	}{{l.CPUTime > 0, "CPU " + l.CPUTime.String()}, {l.WallTime > 0, "time " + l.WallTime.String()}, {l.MemoryBytes > 0, "memory " + size(float64(l.MemoryBytes))},
		{l.OutputBytes > 0, "output " + size(float64(l.OutputBytes))}, {l.Processes > 0, fmt.Sprint(l.Processes, " processes")},
		{l.OpenFiles > 0, fmt.Sprint(l.OpenFiles, " open files")}} {
		if one.set {
			parts = append(parts, one.text)
		}
	}
	return strings.Join(parts, ", ")
}

// The size of a plot, in its own units.
const plotWidth, plotHeight = 58, 16

// plot draws samples as a picture, and says the last in words. It is made of numbers only. The scale goes up to full, or to the largest
// sample.
func plot(what string, list []float64, full float64, say func(float64) string) template.HTML {
	if len(list) == 0 {
		return ""
	}
	top := max(full, slices.Max(list), 1e-9)
	var points strings.Builder
	if slices.Min(list) == slices.Max(list) { // what does nothing looks the same each time, and is not sent again
		fmt.Fprintf(&points, "0,%.0f %d,%.0f", plotHeight*(1-list[0]/top), plotWidth, plotHeight*(1-list[0]/top))
	} else {
		for i, v := range list {
			fmt.Fprintf(&points, "%d,%.0f ", (samples-len(list)+i)*plotWidth/(samples-1), plotHeight*(1-v/top))
		}
	}
	return template.HTML(fmt.Sprintf(`<svg class="plot" viewBox="-1 -1 %d %d" role="img" aria-label="%s"><polyline points="%s"/></svg> <span>%s</span>`,
		plotWidth+2, plotHeight+2, what, strings.TrimSpace(points.String()), say(list[len(list)-1])))
}

// execute makes a block of one of our templates.
func execute(name string, data any) string {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		return "" // the templates are tested
	}
	return strings.TrimSpace(b.String())
}

// overview is the page of everything, or of one session, or of what matches a search.
func (w *Window) overview(l *look, session messages.SessionID, query string, reader bool) blocks {
	b := blocks{"processes": {}, "sessions": {}, "timeline": {}, "grants": {}}
	b.questions(l, "", reader)
	query = strings.ToLower(query)
	more := 0
	for _, p := range l.processes {
		if session != "" && p.Session != session || query != "" && !p.matches(query) {
			continue
		}
		if len(b["processes"]) >= maxShown {
			more++
			continue
		}
		b["processes"] = append(b["processes"], block{p.row.ID, p.html})
	}
	if more > 0 {
		b["processes"] = append(b["processes"], block{"p-more", execute("more", more)})
	}
	for _, s := range l.sessions {
		b["sessions"] = append(b["sessions"], block{"s-" + string(s.ID), execute("session", struct {
			sessionLook
			Short string
			Here  bool
		}{s, short(s.ID), s.ID == session})})
		if session == "" || s.ID == session {
			for _, g := range s.Grants {
				b["grants"] = append(b["grants"], block{"g-" + string(s.ID) + "-" + string(g.ID), execute("grant", struct {
					messages.Grant
					Session messages.SessionID
					Reader  bool
				}{g, s.ID, reader})})
			}
		}
	}
	if session != "" {
		b["timeline"] = w.timelineOf(session, 0, maxEntries, func(entry) bool { return true })
	}
	return b
}

func (p *process) matches(query string) bool {
	i := p.info
	for _, text := range []string{i.Label, i.Dir, i.Owner, string(i.Call), string(p.Session), p.Process.String(), p.row.State, p.row.Awaits} {
		if strings.Contains(strings.ToLower(text), query) {
			return true
		}
	}
	return false
}

func (w *Window) timelineOf(session messages.SessionID, process messages.ProcessID, most int, wanted func(entry) bool) (list []block) {
	for _, e := range w.events.of(session, process, most, wanted) {
		id := fmt.Sprintf("e-%d-%d-%d", e.At.UnixNano(), e.Process, len(e.Text))
		if slices.ContainsFunc(list, func(b block) bool { return b.id == id }) {
			continue
		}
		list = append(list, block{id, execute("entry", struct {
			entry
			Path string
		}{e, w.access.path + key{session, e.Process}.Path()})})
	}
	return list
}

// questions adds the open questions of all sessions, or of one. Only the first of a session is being asked.
func (b blocks) questions(l *look, session messages.SessionID, reader bool) {
	b["questions"] = nil
	for _, s := range l.sessions {
		for i, q := range s.Questions {
			if session == "" || session == s.ID {
				b["questions"] = append(b["questions"], block{"q-" + string(q.ID), execute("question", struct {
					messages.Question
					Session messages.SessionID
					Short   string
					Whole   string
					First   bool
					Reader  bool
				}{q, s.ID, short(s.ID), q.Text(), i == 0, reader})})
			}
		}
	}
}

// facts is the page of one process, but for its screen. since is when the page has taken the keyboard; zero if it has not.
func (w *Window) facts(l *look, k key, since time.Time, reader bool) blocks {
	b := blocks{"facts": {}, "tools": {}, "timeline": w.timelineOf(k.Session, k.Process, 64, func(e entry) bool { return !e.Talk }),
		"connections": w.timelineOf(k.Session, k.Process, 64, func(e entry) bool { return e.Talk }), "executions": w.executions(k)}
	b.questions(l, k.Session, reader)
	for _, p := range l.processes {
		if p.key == k {
			data := struct {
				row
				Info                 messages.ProcessInfo
				Mine, Reader, Hosted bool
			}{p.row, p.info, p.info.Keyboard != nil && p.info.Keyboard.Since.Equal(since), reader, w.runtime() != nil}
			b["tools"], b["facts"] = []block{{"tools-" + p.row.ID, execute("tools", data)}}, []block{{"facts-" + p.row.ID, execute("facts", data)}}
		}
	}
	return b
}

// executions are the programs that the tree of a process has executed, and the executions that were refused.
func (w *Window) executions(k key) []block {
	session := own(w.source.Session(k.Session))
	if session == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(w.ctx, lookTime)
	defer cancel()
	list, err := session.Executions(ctx, k.Process)
	if err != nil || list.Total == 0 && list.Mode == messages.ExecutionsOff {
		return nil // it is not known, and the page says nothing then
	}
	return []block{{"x-" + k.Process.String(), execute("executions", list)}}
}

// difference is what has to be sent to one who has these blocks already, or nil.
func (b blocks) difference(before blocks) map[string]any {
	all := map[string]any{}
	for container, list := range b {
		had, known := before[container]
		old := make(map[string]string, len(had))
		for _, one := range had {
			old[one.id] = one.html
		}
		set := map[string]string{}
		var ids []string
		for _, one := range list {
			ids = append(ids, one.id)
			if html, there := old[one.id]; !there || html != one.html {
				set[one.id] = one.html
			}
		}
		same := known && slices.EqualFunc(had, list, func(a, b block) bool { return a.id == b.id })
		if !same || len(set) > 0 {
			change := map[string]any{"set": set}
			if !same {
				change["order"] = append([]string{}, ids...)
			}
			all[container] = change
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}
