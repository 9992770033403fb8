package ask

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execbus/execbus/messages"
)

// desk is a terminal with a question, in a bubble of synctest, where time passes only when everybody waits.
type desk struct {
	t        *testing.T
	keys     chan []byte
	out      paper
	withdraw context.CancelFunc
	answer   chan answer
}

type answer struct {
	decision messages.Decision
	err      error
}

// paper is what the terminal has shown.
type paper struct {
	mu   sync.Mutex
	text strings.Builder
}

func (p *paper) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *paper) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

var everything = []messages.Choice{
	{Kind: messages.DecisionApproved, Sentence: "Run it this once."}, {Kind: messages.DecisionApprovedForSession, Sentence: "In this session."},
	{Kind: messages.DecisionApprovedWithRule, Sentence: "Always."}, {Kind: messages.DecisionDenied, Sentence: "No."}, {Kind: messages.DecisionAborted, Sentence: "Stop."},
}

// atDesk puts a question with all answers on a terminal of 24 rows and 80 columns.
func atDesk(t *testing.T, q messages.Question, test func(d *desk)) {
	t.Helper()
	if q.Choices == nil {
		q.Choices = everything
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, withdraw := context.WithCancel(t.Context())
		defer withdraw()
		d := &desk{t: t, keys: make(chan []byte), withdraw: withdraw, answer: make(chan answer, 1)}
		terminal := Terminal{Name: "program", Keys: d.keys, Out: &d.out, Size: func() messages.Size { return messages.Size{Rows: 24, Cols: 80} }}
		go func() {
			decision, err := terminal.Ask(ctx, q)
			d.answer <- answer{decision, err}
		}()
		synctest.Wait()
		test(d)
	})
}

// press sends keys in one piece.
func (d *desk) press(keys string) {
	d.t.Helper()
	select {
	case d.keys <- []byte(keys):
	default:
		d.t.Errorf("nobody reads %q", keys)
	}
	synctest.Wait()
}

func (d *desk) wait(long time.Duration) { time.Sleep(long); synctest.Wait() }

func (d *desk) open(after string) {
	d.t.Helper()
	select {
	case a := <-d.answer:
		d.t.Fatalf("%s: answered with %+v", after, a)
	default:
	}
}

func (d *desk) closed(want messages.DecisionKind) {
	d.t.Helper()
	select {
	case a := <-d.answer:
		if a.err != nil || a.decision.Kind != want {
			d.t.Errorf("answered with %+v, want %s", a, want)
		}
	default:
		d.t.Fatalf("not answered with %s; shown: %q", want, d.out.String())
	}
}

func TestOneKeyAnswers(t *testing.T) {
	for key, want := range map[string]messages.DecisionKind{"y": messages.DecisionApproved, "a": messages.DecisionApprovedForSession, "p": messages.DecisionApprovedWithRule,
		"n": messages.DecisionDenied, "x": messages.DecisionAborted, "\x04": messages.DecisionDenied} {
		atDesk(t, messages.Question{}, func(d *desk) {
			d.wait(quietTime)
			d.press(key)
			d.wait(aloneTime - time.Nanosecond)
			d.open("less than 100 ms after the key")
			d.wait(time.Nanosecond)
			d.closed(want)
		})
	}
}

// Ctrl-C counts at once, wherever it stands: a rejection by accident does no harm.
func TestCtrlCMeansNo(t *testing.T) {
	for _, keys := range []string{"\x03", "yes\x03", "\x1b[\x03"} {
		atDesk(t, messages.Question{}, func(d *desk) {
			d.press(keys)
			d.closed(messages.DecisionAborted)
		})
	}
	atDesk(t, messages.Question{Choices: everything[:4]}, func(d *desk) {
		d.press("\x03")
		d.closed(messages.DecisionDenied)
	})
}

func TestKeysThatComeTooSoonOrTogetherAreNoAnswer(t *testing.T) {
	for name, act := range map[string]func(d *desk){
		"too soon":          func(d *desk) { d.wait(quietTime - time.Nanosecond); d.press("y") },
		"behind another":    func(d *desk) { d.wait(quietTime); d.press("z"); d.wait(quietTime - time.Nanosecond); d.press("y") },
		"two at once":       func(d *desk) { d.wait(quietTime); d.press("yy") },
		"with Enter":        func(d *desk) { d.wait(quietTime); d.press("y\r") },
		"one more behind":   func(d *desk) { d.wait(quietTime); d.press("y"); d.wait(aloneTime - time.Nanosecond); d.press("\r") },
		"one after another": func(d *desk) { d.wait(quietTime); d.press("y"); d.press("y"); d.press("y") },
		"not one of them":   func(d *desk) { d.wait(quietTime); d.press("Y") },
		"beyond ASCII":      func(d *desk) { d.wait(quietTime); d.press("у") },
		"an arrow":          func(d *desk) { d.wait(quietTime); d.press("\x1b[A") },
	} {
		atDesk(t, messages.Question{}, func(d *desk) {
			act(d)
			d.wait(aloneTime)
			d.open(name)
			d.wait(quietTime)
			d.open(name)
			if n := strings.Count(d.out.String(), "\nThat was no answer: press one key, alone.\none key: "); n != 1 {
				t.Errorf("%s: it was said %d times", name, n)
			}
			d.press("n")
			d.wait(aloneTime)
			d.closed(messages.DecisionDenied)
		})
	}
}

// What terminals send by themselves is no answer, in whatever pieces and however slowly it comes.
func TestRepliesOfATerminalAreNoAnswer(t *testing.T) {
	for _, reply := range []string{"\x1b[?1;2y", "\x1b[24;80R", "\x1b[?62;4y", "\x1b]11;rgb:yyyy/yyyy/yyyy\x1b\\", "\x1b]ly\x1b\\", "\x1b]2;y\a",
		"\x1bP>|y\x1b\\", "\x1bP1$ry\x1b\\", "\x1b_Gi=1;y\x1b\\", "\x1bOy", "\x1by", "\x1b[My!!", "\x1b[M!y!", "\x1b[M!!y", "\x1b[<0;1;1M", "\x1b[I"} {
		for pieces := range 2 {
			atDesk(t, messages.Question{}, func(d *desk) {
				for i := 0; i < len(reply); {
					n := 1
					if pieces == 0 {
						n = len(reply)
					}
					d.wait(quietTime)
					d.press(reply[i : i+n])
					i += n
				}
				d.wait(quietTime)
				d.open(reply)
				d.press("y")
				d.wait(aloneTime)
				d.closed(messages.DecisionApproved)
			})
		}
	}
}

func TestAQuestionIsOver(t *testing.T) {
	atDesk(t, messages.Question{}, func(d *desk) {
		d.withdraw()
		synctest.Wait()
		if a := <-d.answer; a.err == nil || !strings.HasSuffix(d.out.String(), "program: nobody waits for the answer any more\n") {
			t.Errorf("%+v, %q", a, d.out.String())
		}
	})
	atDesk(t, messages.Question{}, func(d *desk) {
		close(d.keys)
		synctest.Wait()
		d.closed(messages.DecisionDenied)
	})
}

// The question stands below a reset, in one window, with nothing behind it.
func TestAQuestionFitsIntoTheWindow(t *testing.T) {
	long := strings.Repeat("0123456789", 300)
	wide := strings.Repeat("字", 3000)
	for name, q := range map[string]messages.Question{
		"short":     {Display: "ls", Dir: "/work"},
		"a script":  {Display: "sh -c '" + long + "'", Dir: "/work", Reason: "it asks"},
		"all long":  {Display: "sh " + long, Dir: "/" + long, Program: "/" + long, Reason: long, Environment: []string{long, long}, OpenInput: true, Unsandboxed: true},
		"wide":      {Display: "sh " + wide, Dir: wide},
		"many":      {Display: "sh " + long, Dir: "/", Environment: strings.Split(long, "0")},
		"a choice":  {Display: "ls", Choices: []messages.Choice{{Kind: messages.DecisionApprovedWithRule, Sentence: "Always.", Remembers: long}}},
		"a refusal": {Display: "ls", Retry: true, Reason: long},
	} {
		atDesk(t, q, func(d *desk) {
			all := d.out.String()
			text, found := strings.CutPrefix(all, Reset()+freshLine)
			if !found || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' }) {
				t.Fatalf("%s: %q", name, all)
			}
			lines := strings.Split(text, "\n")
			if rows := height(lines, 80); rows > 24 {
				t.Errorf("%s: %d rows:\n%s", name, rows, text)
			}
			if !strings.HasPrefix(lines[0], "program: ") || !strings.HasPrefix(lines[2], q.Display[:2]) || !strings.HasPrefix(lines[len(lines)-1], "one key: ") {
				t.Errorf("%s:\n%s", name, text)
			}
			if cut := strings.Contains(text, "are not shown"); cut == (name == "short") {
				t.Errorf("%s: cut without a word:\n%s", name, text)
			}
			d.wait(quietTime)
			d.press("?")
			d.wait(aloneTime)
			if !strings.Contains(d.out.String(), q.WholeText()) {
				t.Errorf("%s: ? does not show all:\n%s", name, d.out.String())
			}
			d.press("p")
			d.wait(aloneTime)
			d.open("a key right behind all of it")
			d.wait(quietTime)
			d.press("p")
			d.wait(aloneTime)
			d.closed(messages.DecisionApprovedWithRule)
		})
	}
}

func TestOnlyWhatMakesSenseIsOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out paper
		keys := make(chan []byte)
		dropped := false
		terminal := Terminal{Name: "program", Keys: keys, Out: &out, Size: func() messages.Size { return messages.Size{} },
			Drop: func() { dropped = out.String() == "" }, Offer: []messages.DecisionKind{messages.DecisionDenied}}
		go func() {
			time.Sleep(2 * time.Second)
			keys <- []byte("y")
			time.Sleep(2 * time.Second)
			keys <- []byte("n")
		}()
		decision, err := terminal.Ask(t.Context(), messages.Question{Choices: everything})
		if err != nil || decision.Kind != messages.DecisionDenied || !dropped || strings.Contains(out.String(), "\n  y  ") {
			t.Errorf("%+v, %v, %t: %q", decision, err, dropped, out.String())
		}
	})
}
