package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/execbus/execbus"
	"github.com/execbus/execbus/messages"
)

// Names on the server. All are inside of one account: a tenant is an account.
const (
	nodesBucket  = "fx_nodes" // node → NodeInfo
	placeBucket  = "fx_place" // session → Place
	askBucket    = "fx_ask"   // session.question → Asked
	eventStream  = "FX_EV"
	outputStream = "FX_OUT"
)

func nodeSubject(node string) string                 { return "fx.node." + node + ".call" }
func callSubject(session messages.SessionID) string  { return "fx.s." + string(session) + ".call" }
func eventSubject(session messages.SessionID) string { return "fx.s." + string(session) + ".ev" }
func outputSubject(session messages.SessionID, process messages.ProcessID) string {
	return "fx.s." + string(session) + ".p." + process.String() + ".out"
}

// Headers of messages.
const (
	epochHeader  = "Execbus-Epoch"  // of the node that stored events
	indexHeader  = "Execbus-Index"  // of a message with events in its session, counted by that node from 1
	outputHeader = "Execbus-Output" // of output: see outputHead
	partHeader   = "Execbus-Part"   // of an answer in several messages: "1/3"
)

// Bounds.
const (
	// DefaultLease is how long a node counts as reachable after its last heartbeat; it sends five in that time.
	DefaultLease = 5 * time.Second
	// DefaultRetention is how long events are kept, and what became of a session.
	DefaultRetention = 24 * time.Hour
	// DefaultCacheBytes bounds the output that the server keeps, of all sessions together, and cacheAge how long.
	DefaultCacheBytes = 256 << 20
	cacheAge          = 10 * time.Minute
	// outputBatch is the most output in one message, in bytes, and outputsKept the most messages of one process: 64 MiB.
	outputBatch = 256 << 10
	outputsKept = 256
	// outputsWaiting is how many messages wait for a reader that is slow: 16 MiB.
	outputsWaiting = 64
	// storeTime is how long one request to the server may take before it is tried again.
	storeTime = 2 * time.Second
	// booksTime is the same for reading a whole bucket.
	booksTime = 10 * time.Second
	// reconnectWait is between two attempts to connect again.
	reconnectWait = 250 * time.Millisecond
)

// Settings are what the members of a fleet share. The zero value means the defaults.
type Settings struct {
	Lease      time.Duration // zero means DefaultLease; at least 500 ms
	Retention  time.Duration // of events; zero means DefaultRetention
	CacheBytes int64         // of output; zero means DefaultCacheBytes
	Replicas   int           // copies that the servers of a cluster keep; zero means 1
}

// Setup makes the streams and buckets of a fleet in the account of a connection. What is there already stays as it is, so that an
// operator may make them with other settings, and any number of callers may call it.
func Setup(ctx context.Context, nc *nats.Conn, settings Settings) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return failed("set up a fleet", err)
	}
	lease, retention := max(or(settings.Lease, DefaultLease), 500*time.Millisecond), or(settings.Retention, DefaultRetention)
	replicas := max(settings.Replicas, 1)
	direct := replicas == 1 // a copy may be behind, and then a reader would take the events for complete that are not
	for _, bucket := range []jetstream.KeyValueConfig{
		{Bucket: nodesBucket, TTL: lease, Storage: jetstream.FileStorage, Replicas: replicas},
		{Bucket: placeBucket, Storage: jetstream.FileStorage, Replicas: replicas},
		{Bucket: askBucket, Storage: jetstream.FileStorage, Replicas: replicas},
	} {
		if _, err := js.CreateKeyValue(ctx, bucket); err != nil && !errors.Is(err, jetstream.ErrBucketExists) {
			return failed("set up a fleet", err)
		}
	}
	for _, stream := range []jetstream.StreamConfig{
		{Name: eventStream, Subjects: []string{"fx.s.*.ev"}, MaxAge: retention, Storage: jetstream.FileStorage, AllowDirect: direct, Replicas: replicas},
		{Name: outputStream, Subjects: []string{"fx.s.*.p.*.out"}, MaxAge: cacheAge, MaxBytes: or(settings.CacheBytes, DefaultCacheBytes), NoAck: true,
			MaxMsgsPerSubject: outputsKept, Storage: jetstream.FileStorage, AllowDirect: direct, Replicas: replicas},
	} {
		if _, err := js.CreateStream(ctx, stream); err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return failed("set up a fleet", err)
		}
	}
	return nil
}

func or[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// fleet is what a member of a fleet holds of it.
type fleet struct {
	nc                *nats.Conn
	js                jetstream.JetStream
	nodes, place, ask jetstream.KeyValue
	events, output    jetstream.Stream
	lease             time.Duration
	roster            chan roster // holds one
}

// roster is what this program has last read of the nodes, and where it has placed sessions since.
type roster struct {
	nodes []NodeInfo
	at    time.Time // when it began to read; zero: never
}

// fleets are those that this program has joined: what Setup has made stays, and looking it up would take longer than a call does. This is a
// lock because no goroutine of ours lives as long as a connection. Those of closed connections are removed when another one joins.
var (
	fleetsLock sync.Mutex
	fleets     = map[*nats.Conn]*fleet{}
)

// join gives what Setup has made. It looks that up once for each connection.
func join(ctx context.Context, nc *nats.Conn) (*fleet, error) {
	if ctx.Err() != nil {
		return nil, failed("join the fleet", ctx.Err())
	}
	fleetsLock.Lock()
	f := fleets[nc]
	fleetsLock.Unlock()
	if f == nil {
		var err error
		if f, err = lookUp(ctx, nc); err != nil {
			return nil, err
		}
		fleetsLock.Lock()
		maps.DeleteFunc(fleets, func(other *nats.Conn, _ *fleet) bool { return other.IsClosed() })
		fleets[nc] = f
		fleetsLock.Unlock()
	}
	joined := *f
	return &joined, nil
}

// lookUp asks the server for what Setup has made.
func lookUp(ctx context.Context, nc *nats.Conn) (*fleet, error) {
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(storeTime))
	if err != nil {
		return nil, failed("join the fleet", err)
	}
	f := &fleet{nc: nc, js: js, roster: make(chan roster, 1)}
	f.roster <- roster{}
	ctx, cancel := context.WithTimeout(ctx, booksTime)
	defer cancel()
	look := []func() error{
		func() (err error) { f.nodes, err = js.KeyValue(ctx, nodesBucket); return err },
		func() error {
			bucket, err := js.Stream(ctx, "KV_"+nodesBucket)
			if err == nil {
				f.lease = or(bucket.CachedInfo().Config.MaxAge, DefaultLease)
			}
			return err
		},
		func() (err error) { f.place, err = js.KeyValue(ctx, placeBucket); return err },
		func() (err error) { f.ask, err = js.KeyValue(ctx, askBucket); return err },
		func() (err error) { f.events, err = js.Stream(ctx, eventStream); return err },
		func() (err error) { f.output, err = js.Stream(ctx, outputStream); return err },
	}
	errs := make([]error, len(look))
	var all sync.WaitGroup
	for i := range look { // at once: each is a request to the server
		all.Go(func() { errs[i] = look[i]() })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, f.missing(err)
		}
	}
	return f, nil
}

func (f *fleet) missing(err error) error {
	if errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return &messages.Error{Code: messages.ErrInvalidRequest, Op: "join the fleet", Subject: f.nc.ConnectedUrlRedacted(),
			Detail: "there is no fleet in this account; set one up first, with execbus-fleet setup", Hint: "call fleet.Setup"}
	}
	return failed("join the fleet", err)
}

// failed is an error of NATS.
func failed(op string, err error) error {
	typed, ok := errors.AsType[*messages.Error](err)
	if ok {
		return typed
	}
	return &messages.Error{Code: messages.ErrUnreachable, Op: op, Detail: "the NATS server did not do it: " + err.Error() + "; try again when it answers",
		Like: messages.LikeOf(err)}
}

// conflict reports whether a compare-and-set came too late: somebody else has changed the key or the subject.
func conflict(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, jetstream.ErrKeyExists) || errors.As(err, &api) &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// NodeInfo is what a node says of itself with each heartbeat.
type NodeInfo struct {
	ID       string               `json:"id"`
	Instance string               `json:"instance"` // of the program that serves it, new at each start
	Labels   map[string]string    `json:"labels,omitempty"`
	Slots    int                  `json:"slots"` // sessions that it takes at once
	Sessions int                  `json:"sessions"`
	Memory   int64                `json:"memory,omitempty"`   // bytes that its sessions may reserve; zero: not counted
	Reserved int64                `json:"reserved,omitempty"` // bytes that they have
	Levels   []messages.Assurance `json:"levels"`             // sandbox levels that it can enforce
	Draining bool                 `json:"draining,omitempty"`
}

// State is where a session stands in the books of the fleet. States only move forward.
type State string

// The states.
const (
	StateWaiting State = "waiting" // no node has room for it; Why says what it waits for
	StatePlacing State = "placing" // a node has been asked
	StateHeld    State = "held"    // a node has it
	StateEnded   State = "ended"
	StateLosing  State = "losing" // its node was given up; its ends are being written
	StateLost    State = "lost"
	// StateUnreachable is that of a held session whose node sends no heartbeats. It is never in the books: the node may be back at any time.
	StateUnreachable State = "unreachable"
)

// whyGone is why a session has ended that nobody renewed while it waited for a node. If its client is back the session waits again.
const whyGone = "the program that wanted it is gone"

// Place is an entry of the books: which node has a session. A change is a compare-and-set, so exactly one node can get a session.
type Place struct {
	Session  messages.SessionID `json:"session"`
	State    State              `json:"state"`
	Node     string             `json:"node,omitempty"`
	Instance string             `json:"instance,omitempty"`
	// Epoch grows with each node that was asked, and when a node is given up. What an older epoch does has no effect.
	Epoch  uint64    `json:"epoch"`
	Memory int64     `json:"memory,omitempty"` // bytes that it reserves
	Why    string    `json:"why,omitempty"`
	At     time.Time `json:"at"` // of the last change

	revision uint64
}

// read returns an entry of the books.
func (f *fleet) read(ctx context.Context, session messages.SessionID) (Place, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	entry, err := f.place.Get(ctx, string(session))
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound), errors.Is(err, jetstream.ErrInvalidKey):
		return Place{}, &messages.Error{Code: messages.ErrClosed, Op: "find session", Subject: string(session),
			Detail: "the fleet knows no session of this name; it may have ended long ago"}
	case err != nil:
		return Place{}, failed("find session", err)
	}
	return placeOf(entry)
}

func placeOf(entry jetstream.KeyValueEntry) (Place, error) {
	var place Place
	err := json.Unmarshal(entry.Value(), &place)
	place.revision = entry.Revision()
	return place, err
}

// change changes an entry, if nobody else has since it was read: otherwise the error is a conflict. A revision of zero makes a new entry.
// After any other error the change may have been made; write, with the entry that came with the error, finds out or makes it.
func (f *fleet) change(ctx context.Context, place Place) (Place, error) {
	place.At = time.Now().UTC().Round(0) // without a monotonic clock, as it is read again
	return f.write(ctx, place)
}

// write is change without a new time: an entry with the same time is the same change.
func (f *fleet) write(ctx context.Context, place Place) (Place, error) {
	text, err := json.Marshal(place)
	if err != nil {
		return place, err
	}
	once, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	wanted := place
	if place.revision == 0 {
		place.revision, err = f.place.Create(once, string(place.Session), text)
	} else {
		place.revision, err = f.place.Update(once, string(place.Session), text, place.revision)
	}
	if err == nil {
		return place, nil
	}
	// The server may have done it, and its answer was lost; a request that was sent again then conflicts with the first.
	now, unread := f.read(ctx, place.Session)
	if unread != nil && !errors.Is(unread, messages.ErrClosed) {
		return wanted, unread
	}
	found := now
	if found.revision = wanted.revision; unread == nil && found == wanted {
		return now, nil
	}
	return wanted, err
}

// recount is the pause before the values of a bucket are counted again, if fewer have come.
const recount = 20 * time.Millisecond

// valuesOf reads a whole bucket, in the order of the last changes. A watcher says too early that all values have come, if some change
// meanwhile. So they are counted.
func valuesOf[T any](ctx context.Context, bucket jetstream.KeyValue, decode func(jetstream.KeyValueEntry) (T, error)) ([]T, error) {
	return readValues(ctx, bucket, decode, true)
}

// readValues is valuesOf, if the values are counted. If not, one that is being changed may be missing, and it costs a request less.
func readValues[T any](ctx context.Context, bucket jetstream.KeyValue, decode func(jetstream.KeyValueEntry) (T, error), counts bool) (values []T, err error) {
	ctx, cancel := context.WithTimeout(ctx, booksTime)
	defer cancel()
	type counted struct {
		keys uint64
		err  error
	}
	results := make(chan counted, 1)
	count := func() {
		status, err := bucket.Status(ctx)
		if err != nil {
			results <- counted{err: err}
			return
		}
		results <- counted{keys: status.Values()}
	}
	if counts {
		go count() // while the values come
	}
	watcher, err := bucket.WatchAll(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = watcher.Stop() }()
	latest := map[string]jetstream.KeyValueEntry{} // also of keys that were deleted: they count
	for told, known, keys := false, !counts, uint64(0); !told || !known; {
		select {
		case entry, open := <-watcher.Updates():
			switch {
			case !open:
				return nil, fmt.Errorf("the bucket %s was not read to its end", bucket.Bucket())
			case entry == nil:
				told = true
			default:
				latest[entry.Key()] = entry
			}
		case c := <-results:
			if c.err != nil {
				return nil, c.err
			}
			known, keys = true, c.keys
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if told && known && uint64(len(latest)) < keys { // the rest comes, unless it has expired
			known = false
			time.AfterFunc(recount, count)
		}
	}
	for _, entry := range slices.SortedFunc(maps.Values(latest), func(a, b jetstream.KeyValueEntry) int { return cmp.Compare(a.Revision(), b.Revision()) }) {
		if entry.Operation() != jetstream.KeyValuePut {
			continue
		}
		if value, err := decode(entry); err == nil { // what is no value of ours is nobody's business
			values = append(values, value)
		}
	}
	return values, nil
}

// list shows the nodes, as they were at most so long ago, to a function, and reports whether these are all of now: with an age of zero,
// because otherwise they are not counted. One Open at a time reads them, and the others wait for that.
func (f *fleet) list(ctx context.Context, age time.Duration, look func([]NodeInfo)) (now bool, err error) {
	var r roster
	select {
	case r = <-f.roster:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { f.roster <- r }()
	if r.at.IsZero() || time.Since(r.at) >= age {
		at, all := time.Now(), age == 0
		read, err := readValues(ctx, f.nodes, nodeOf, all)
		if err != nil {
			return false, err
		}
		r, now = roster{read, at}, all
	}
	look(r.nodes)
	return now, nil
}

// count notes that a node was asked to take a session, for those that choose before its next heartbeat says so.
func (f *fleet) count(ctx context.Context, id string, memory int64) {
	var r roster
	select {
	case r = <-f.roster:
	case <-ctx.Done():
		return
	}
	defer func() { f.roster <- r }()
	for i := range r.nodes {
		if r.nodes[i].ID == id {
			r.nodes[i].Sessions++
			r.nodes[i].Reserved += memory
		}
	}
}

func nodeOf(entry jetstream.KeyValueEntry) (info NodeInfo, err error) {
	err = json.Unmarshal(entry.Value(), &info)
	return info, err
}

// request is a call on its way to a session or a node.
type request struct {
	Method string `json:"method"`
	// Key names the call: a node does it once and gives the same answer to every request with this key.
	Key    string          `json:"key,omitempty"`
	Epoch  uint64          `json:"epoch,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
}

// answer is what comes back. A call may have a result and an error.
type answer struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  *messages.Error `json:"error,omitempty"`
}

// opening is the parameter of a node's call "open".
type opening struct {
	Session  messages.SessionID `json:"session"`
	Revision uint64             `json:"revision"` // of the entry in the books that names the node
	Memory   int64              `json:"memory,omitempty"`
	Options  sessionOptions     `json:"options"`
}

// sessionOptions are a session's options on their way, without those that belong to one program.
type sessionOptions struct {
	execbus.SessionOptions
	Approver, Record *struct{} `json:",omitempty"`
}

func badMemory(bytes int64) error {
	return &messages.Error{Code: messages.ErrInvalidRequest, Op: "open session", Subject: "memory", Detail: fmt.Sprintf("%d bytes cannot be reserved; use 0 or more", bytes)}
}
