package window

import (
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/execbus/execbus/messages"
	"github.com/execbus/execbus/view"
)

// pageBytes is how much output a page of it shows, and maxHits how many lines a search finds at once.
const (
	pageBytes = 64 << 10
	maxHits   = 200
)

// outputPage is a part of a process's output as a page.
type outputPage struct {
	processPage
	View, Query      string // text or bytes
	From, Next, Size int64
	Missed           int64
	Text             string
	Lines            []messages.OutputLine
	More             bool
	Error            string
}

// output shows kept output of a process, from its log and its spool: as text, as bytes, the lines that match, or all of it as a file.
func (w *Window) output(response http.ResponseWriter, r *http.Request, k key, info messages.ProcessInfo) {
	query := r.URL.Query()
	page := outputPage{processPage: processPage{Base: w.access.path, Key: k, Info: info, Hosted: w.runtime() != nil}, View: query.Get("view"), Query: query.Get("q")}
	page.From, _ = strconv.ParseInt(query.Get("from"), 10, 64)
	page.From = max(page.From, 0)
	switch page.View {
	case "raw":
		w.download(response, r, k)
		return
	case "recording":
		w.recording(response, k)
		return
	}
	if page.View != "bytes" {
		page.View = "text"
	}
	if err := w.fill(&page, r); err != nil {
		page.Error = err.Error()
	}
	w.render(response, "output.html", page)
}

// fill reads what a page shows.
func (w *Window) fill(page *outputPage, r *http.Request) error {
	session, err := w.session(page.Key.Session)
	if err != nil {
		return err
	}
	read := messages.ReadOutput{Process: page.Key.Process, Offset: &page.From, SkipLost: true}
	switch {
	case page.Query != "":
		read.Grep = &messages.Grep{Pattern: page.Query, Matches: maxHits}
	case page.View == "text" && page.Hosted:
		read.View, read.Max = messages.ViewText, pageBytes
	default:
		read.Max = pageBytes
	}
	got, err := session.Read(r.Context(), read)
	if err != nil {
		return err
	}
	page.Size, page.Missed, page.Lines, page.Next = got.Total, got.Missed, got.Lines, got.Next
	if page.Query == "" {
		page.Next = page.From + got.Missed
		var bytes strings.Builder
		var all []byte
		for _, chunk := range got.Chunks {
			page.Next = chunk.Offset + int64(len(chunk.Bytes))
			bytes.WriteString(inBytes(chunk))
			all = append(all, chunk.Bytes...)
		}
		switch page.Text = bytes.String(); {
		case page.View == "text" && got.Shown != nil:
			page.Text = got.Shown.Text
		case page.View == "text":
			page.Text = string(view.TextOf(all, page.Info.Size))
		}
	}
	page.More = page.Next < page.Size && page.Next > page.From
	return nil
}

// inBytes shows a chunk so that each byte can be told: one line for each line of it, with its offset.
func inBytes(chunk messages.OutputChunk) string {
	var b strings.Builder
	at := chunk.Offset
	for line := range strings.Lines(string(chunk.Bytes)) {
		quoted := strconv.QuoteToASCII(line)
		b.WriteString(strconv.FormatInt(at, 10) + "\t" + string(chunk.Stream) + "\t" + quoted[1:len(quoted)-1] + "\n")
		at += int64(len(line))
	}
	return b.String()
}

// download sends all kept output as a file. A marker stands where some is missing.
func (w *Window) download(response http.ResponseWriter, r *http.Request, k key) {
	session, err := w.session(k.Session)
	if err != nil {
		http.Error(response, err.Error(), http.StatusNotFound)
		return
	}
	header := response.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Disposition", `attachment; filename="output-`+k.Process.String()+`.bin"`)
	for at, end := int64(0), int64(-1); end < 0 || at < end; {
		page, err := session.Read(r.Context(), messages.ReadOutput{Process: k.Process, Offset: &at, SkipLost: true})
		if err != nil || len(page.Chunks) == 0 && page.Missed == 0 {
			return
		}
		if end < 0 {
			end = page.Total // what comes later is not part of it
		}
		hurry(response)
		if page.Missed > 0 {
			_, _ = response.Write([]byte(messages.OmissionMarker(page.Missed)))
			at += page.Missed
		}
		for _, chunk := range page.Chunks {
			at += int64(len(chunk.Bytes))
			if _, err := response.Write(chunk.Bytes); err != nil {
				return // the browser has gone
			}
		}
	}
}

// recording sends the recording of a process as a file. That of one which runs is what has been written so far.
func (w *Window) recording(response http.ResponseWriter, k key) {
	session, err := w.session(k.Session)
	if err != nil {
		http.Error(response, err.Error(), http.StatusNotFound)
		return
	}
	recorded := own(session)
	if recorded == nil {
		http.Error(response, "nothing is recorded here", http.StatusNotFound)
		return
	}
	file, err := os.Open(recorded.Recording(k.Process)) // the name is the recorder's, and no part of it is the browser's
	if err != nil {
		http.Error(response, "this process has no recording", http.StatusNotFound)
		return
	}
	defer file.Close()
	response.Header().Set("Content-Type", "application/x-asciicast")
	response.Header().Set("Content-Disposition", `attachment; filename="recording-`+k.Process.String()+`.cast"`)
	for buffer := make([]byte, pageBytes); ; {
		n, err := file.Read(buffer)
		if n > 0 {
			hurry(response)
			if _, err := response.Write(buffer[:n]); err != nil {
				return // the browser has gone
			}
		}
		if err != nil {
			return
		}
	}
}
