5 27 1 1 0 27 1 0 0 1 1 0 
    215         }
    216         b.remove(ended...)
    217 }
    218 
    219 // Stats are the counts of a bus.
    220 type Stats struct {
    221         Subscriptions int    // open now
    222         Published     uint64 // events published since New
    223         Dropped       uint64 // output events and inputs lost, counted once for ea
    223 ch subscription that lost one
    224 }
    225 
    226 // Stats returns the counts. They are read one after the other, so they are not a 
    226 snapshot.
    227 [7mfunc[0m[39m[49m (b *Bus) Stats() Stats {
    228         s := Stats{Published: b.published.Load(), Dropped: b.dropped.Load()}
    229         if d := b.directory.Load(); d != nil {
    230                 s.Subscriptions = d.open
    231         }
    232         return s
    233 }
    234 
    235 [7mfunc[0m[39m[49m cancelled(ctx context.Context) error {
    236         return &messages.Error{Code: messages.ErrCancelled, Op: "read events", Det
    236 ail: context.Cause(ctx).Error(),
    237                 Like: messages.LikeOf(ctx.Err())}
    238 }
[7m(END)
