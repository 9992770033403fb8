package view

import (
	"fmt"
	"strings"
	"testing"

	"github.com/execbus/execbus/messages"
)

// bars are progress bars of a hundred steps, as the tools draw them; see testdata/tools.
var bars = map[string]func(step int) string{
	"pip": func(n int) string {
		return fmt.Sprintf("\r\x1b[2K     \x1b[38;5;204m%s\x1b[0m\x1b[38;5;237m%s\x1b[0m \x1b[32m%.1f/12.6 MB\x1b[0m \x1b[31m2.2 MB/s\x1b[0m eta \x1b[36m0:00:06\x1b[0m",
			strings.Repeat("━", n*2/5), strings.Repeat("━", 40-n*2/5), 12.6*float64(n)/100)
	},
	"npm": func(n int) string { return "\x1b[1G\x1b[0K" + string([]rune("⠙⠹⠸⠼⠴⠦⠧⠇⠏⠋")[n%10]) },
	"cargo": func(n int) string {
		return fmt.Sprintf("\x1b[1m\x1b[96m    Building\x1b[0m [%s>%s] %d/100: gamma-core, eta-core        \r", strings.Repeat("=", n/4), strings.Repeat(" ", 25-n/4), n)
	},
	"tqdm": func(n int) string {
		return fmt.Sprintf("\repoch 0: %3d%%|%s%s| %d/100 [00:00<00:00, 69.47it/s]", n, strings.Repeat("█", n/3), strings.Repeat(" ", 33-n/3), n)
	},
	"apt": func(n int) string {
		return fmt.Sprintf("\x1b7\x1b[24;0f\x1b[42m\x1b[30mProgress: [%3d%%]\x1b[49m\x1b[39m [%s%s] \x1b8", n, strings.Repeat("#", n/2), strings.Repeat(".", 50-n/2))
	},
}

// ends are how they end.
var ends = map[string]string{
	"pip": "\r\n", "npm": "\x1b[1G\x1b[0K\r\n", "cargo": "\r\x1b[K\x1b[1m\x1b[92m    Finished\x1b[0m\r\n", "tqdm": "\r\n",
	"apt": "\r\n\x1b7\x1b[0;24r\x1b8\x1b[1A\x1b[J",
}

func TestProgressBarsCostTheirLastState(t *testing.T) {
	t.Parallel()
	for name, bar := range bars {
		output := ""
		if name == "apt" {
			output = "\r\n\x1b7\x1b[0;23r\x1b8\x1b[1A"
		}
		for step := range 101 {
			output += bar(step)
		}
		text := TextOf([]byte(output+ends[name]), messages.Size{Rows: 24, Cols: 80})
		share := 100 * float64(len(text)) / float64(len(output))
		t.Logf("%-5s %6d bytes, as text %3d, %.1f %%", name, len(output), len(text), share)
		if share > 3 {
			t.Errorf("of the bar of %s %.1f %% are left: %q", name, share, text)
		}
		if last := map[string]string{"pip": "12.6/12.6 MB", "cargo": "Finished", "tqdm": "100/100"}[name]; !strings.Contains(string(text), last) {
			t.Errorf("the last state of %s is %q, want one with %q", name, text, last)
		}
	}
}
