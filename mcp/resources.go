package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/execbus/execbus/messages"
)

// These constants say how processes appear as resources.
const (
	scheme   = "execbus://processes/"
	mimeType = "text/plain"
	// resourceTail is how much of the end of a process's output its resource shows, in bytes.
	resourceTail = 64 << 10
)

func uriOf(id messages.ProcessID) string { return scheme + id.String() }

// processOf returns the process of a URI.
func processOf(uri string) (messages.ProcessID, bool) {
	digits, ours := strings.CutPrefix(uri, scheme)
	id, err := strconv.Atoi(digits)
	return messages.ProcessID(id), ours && err == nil && digits == strconv.Itoa(id)
}

// listed are the processes that the client sees as resources. The lock is for concurrent calls, which compare this list with
// the session's processes: the library keeps the client's list too, but offers no way to read it.
type listed struct {
	mu  sync.Mutex
	all map[messages.ProcessID]bool
}

// listing brings the list up to date before a client gets it: the session forgets ended processes after a while. It also completes
// the content of a resource.
func (c *conversation) listing(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, request sdk.Request) (sdk.Result, error) {
		if method == "resources/list" && c.listed.some() {
			c.list(ctx, 0)
		}
		result, err := next(ctx, method, request)
		if output, is := result.(*sdk.ReadResourceResult); is && err == nil {
			return reading{output}, nil
		}
		return result, err
	}
}

// reading is the content of a resource. Its JSON has a text even if that is empty: the library leaves an empty text out, and clients
// refuse a content that has neither a text nor a blob.
type reading struct{ *sdk.ReadResourceResult }

// MarshalJSON implements json.Marshaler.
func (r reading) MarshalJSON() ([]byte, error) {
	var members map[string]json.RawMessage
	encoded, err := r.ReadResourceResult.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(encoded, &members)
	}
	if err != nil {
		return nil, err
	}
	type content struct {
		sdk.ResourceContents
		Text string `json:"text"`
	}
	var contents []content
	for _, c := range r.Contents {
		contents = append(contents, content{*c, c.Text})
	}
	members["contents"] = compact(contents)
	return json.Marshal(members)
}

func (l *listed) some() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all) > 0
}

// list adds a resource for a process that has outlived the call that started it, if there is one, and removes the resources of
// processes that the session has forgotten.
func (c *conversation) list(ctx context.Context, id messages.ProcessID) {
	o, err := c.open()
	if err != nil {
		return
	}
	c.listed.mu.Lock() // before the question, or an older answer could overwrite a newer one
	defer c.listed.mu.Unlock()
	known, err := o.session.Records(context.WithoutCancel(ctx))
	if err != nil {
		return
	}
	left := map[messages.ProcessID]bool{}
	for _, p := range known {
		if p.Process == id {
			c.protocol.AddResource(&sdk.Resource{URI: uriOf(id), Name: "process " + id.String(), Title: short(p.Label),
				Description: fmt.Sprintf("The output of %s, in %s", short(p.Label), p.Dir), MIMEType: mimeType}, c.readResource)
		}
		left[p.Process] = p.Process == id || c.listed.all[p.Process]
	}
	for old, was := range c.listed.all {
		if was && !left[old] {
			c.protocol.RemoveResources(uriOf(old))
		}
	}
	c.listed.all = left
}

// short shortens a label for a list.
func short(label string) string {
	const most = 80
	if runes := []rune(label); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return label
}

// readResource returns the end of a process's output.
func (c *conversation) readResource(ctx context.Context, request *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	id, ours := processOf(request.Params.URI)
	if !ours {
		return nil, sdk.ResourceNotFoundError(request.Params.URI)
	}
	o, err := c.open()
	if err != nil {
		return nil, err
	}
	page, err := o.session.Read(ctx, messages.ReadOutput{Process: id, Tail: resourceTail})
	switch {
	case errors.Is(err, messages.ErrUnknownProcess):
		return nil, sdk.ResourceNotFoundError(request.Params.URI)
	case err != nil:
		return nil, err
	}
	var output strings.Builder
	for _, chunk := range page.Chunks {
		output.Write(chunk.Bytes)
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{
		{URI: request.Params.URI, MIMEType: mimeType, Text: strings.ToValidUTF8(output.String(), "\uFFFD")}}}, nil
}
