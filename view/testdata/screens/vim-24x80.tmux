8 10 1 1 0 29 1 0 0 1 1 0 
[93m  9 [94m$[39m 
[93m 10 [38;5;81m^I[95m"github.com/execbus/execbus/messages"[94m$
[93m 11 [39m)[94m$[39m                                                                                              
[93m 12 [94m$[39m            
[93m 13 [96m// Options configures a Bus. The zero value is useful.[94m$
[93m 14 type[39m Options [93mstruct[39m {[94m$
[93m 15 [38;5;81m^I[96m// MaxSubscriptions bounds how many subscriptions may be open at once; 0 or less means any num
[93m    [96mber.[94m$[39m                                                                                           
[93m 16 [38;5;81m^I[39mMaxSubscriptions [38;5;121mint[94m$
[93m 17 [39m}[94m$[39m                                    
[93m 18 [38;5;81m^I[39mtab[94m$[39m                                                                                          
[1;7mserver.go [+]                                                                     18,0-1          3%
[0m[93m[49m 69 [96m// its subscriber is done with ev. There are several credits if ev is made of the bytes of sever
[93m    [96mal batches. Nil credits are
[93m 70 [96m// ignored. The caller keeps its own holds, may publish more events with the same credits, and m
[93m    [96must release them in the end,
[93m 71 [96m// even if the bus was closed.
[93m 72 [96m//
[93m 73 [96m// The caller must not change ev.Bytes afterwards: subscribers share them. The bounds count the 
[93m    [96mcapacity of ev.Bytes, so it
[93m 74 [96m// should be a copy of exact size, of at most messages.MaxOutputDelta bytes.
[93m 75 [30m[103mfunc[39m[49m (b *Bus) PublishOutput(ev messages.OutputDelta, credits ...*Credit) {
[93m 76 [39m        credit := join(credits)
[93m 77 [39m        b.publish(&publication{delta: ev, kind: messages.KindOutputDelta, from: ev.Origin, outpu
[93m    [39mt: [95mtrue[39m, size: [1m[96mcap[0m[39m[49m(ev.Bytes),
[93m 78 [39m                credit: credit})
[93m 79 [39m        [93mif[39m [1m[96mlen[0m[39m[49m(credits) > [95m1[39m {
[93m 80 [39m                credit.Release()
[7mserver.go [+]                                                                     74,1           29%
[0;1m[39m[49m-- INSERT --[0m[39m[49m                                                                             ^[
