5 39 1 1 0 39 1 0 0 1 1 0 
    202 e
    203 // empty session, for events of no session, ends as well. Later events of the session reach only the remaining subscriptions
    203 .
    204 [7mfunc[0m[39m[49m (b *Bus) CloseSession(session messages.SessionID) {
    205         d := b.directory.Load()
    206         if d == nil {
    207                 return
    208         }
    209         var ended []*Subscription
    210         for _, s := range d.sessions[session] {
    211                 if !slices.ContainsFunc(s.filter.Sessions, [7mfunc[0m[39m[49m(other messages.SessionID) bool { return other != session && 
    211 other != "" }) {
    212                         s.finish(errSessionClosed)
    213                         ended = append(ended, s)
    214                 }
    215         }
    216         b.remove(ended...)
    217 }
    218 
    219 // Stats are the counts of a bus.
    220 type Stats struct {
    221         Subscriptions int    // open now
    222         Published     uint64 // events published since New
    223         Dropped       uint64 // output events and inputs lost, counted once for each subscription that lost one
    224 }
    225 
    226 // Stats returns the counts. They are read one after the other, so they are not a snapshot.
    227 [7mfunc[0m[39m[49m (b *Bus) Stats() Stats {
    228         s := Stats{Published: b.published.Load(), Dropped: b.dropped.Load()}
    229         if d := b.directory.Load(); d != nil {
    230                 s.Subscriptions = d.open
    231         }
    232         return s
    233 }
    234 
    235 [7mfunc[0m[39m[49m cancelled(ctx context.Context) error {
    236         return &messages.Error{Code: messages.ErrCancelled, Op: "read events", Detail: context.Cause(ctx).Error(),
    237                 Like: messages.LikeOf(ctx.Err())}
    238 }
[7m(END)
