8 18 1 1 0 39 1 0 0 1 1 0 
[93m 18 [94m$[39m                             
[93m 19 [96m// Bus distributes events to subscriptions. Make one with New. All methods may be called from any goroutine.[94m$
[93m 20 type[39m Bus [93mstruct[39m {[94m$
[93m 21 [38;5;81m^I[39moptions Options[94m$
[93m 22 [94m$
[93m 23 [38;5;81m^I[96m// directory knows the open subscriptions; nil once the bus is closed. Publishers load it and take no lock.[94m$
[93m 24 [38;5;81m^I[39mdirectory atomic.Pointer[directory][94m$
[93m 25 [38;5;81m^I[96m// change is held while directory is replaced. A message would not do: a subscription must be in the directory when[94m$
[93m 26 [38;5;81m^I[96m// Subscribe returns, and out of it when Close returns.[94m$[39m                                           
[93m 27 [38;5;81m^I[39mchange sync.Mutex[94m$[39m        
[93m 28 [94m$[39m                        
[93m 29 [38;5;81m^I[39mpublished atomic.Uint64[94m$
[93m 30 [38;5;81m^I[39mdropped   atomic.Uint64[94m$[39m                                                     
[93m 31 [39m}[94m$[39m                                        
[93m 32 [94m$
[93m 33 [96m// New makes a bus.[94m$[39m                                                         
[93m 34 [30m[103mfunc[39m[49m New(options Options) *Bus {[94m$[39m                                   
[93m 35 [38;5;81m^I[39mb := &Bus{options: options}[94m$
[93m 36 [38;5;81m^I[39mtab[94m$[39m                                                                              
[1;7mserver.go [+]                                                                                                     36,2-9          7%
[0m[93m[49m 59 [30m[103mfunc[39m[49m (b *Bus) Publish(ev messages.Event) {              
[93m 60 [39m        [93mif[39m output, ok := ev.(messages.OutputDelta); ok {                                                            
[93m 61 [39m                b.publish(&publication{event: ev, kind: messages.KindOutputDelta, from: output.Origin, output: [95mtrue[39m,
[93m 62 [39m                        size: [1m[96mcap[0m[39m[49m(output.Bytes)})
[93m 63 [39m                [93mreturn[39m                                                                                                     
[93m 64 [39m        }                                                                                              
[93m 65 [39m        b.publish(&publication{event: ev, kind: ev.Kind(), from: ev.From(), size: messages.Weight(ev)})
[93m 66 [39m}
[93m 67 [39m                                                                                                                            
[93m 68 [96m// PublishOutput is Publish for output under flow control. Every lossless subscription that wants ev holds all credits until
[93m 69 [96m// its subscriber is done with ev. There are several credits if ev is made of the bytes of several batches. Nil credits are[39m 
[93m 70 [96m// ignored. The caller keeps its own holds, may publish more events with the same credits, and must release them in the end,
[93m 71 [96m// even if the bus was closed.
[93m 72 [96m//[39m                                                                                                                         
[93m 73 [96m// The caller must not change ev.Bytes afterwards: subscribers share them. The bounds count the capacity of ev.Bytes, so it
[93m 74 [96m// should be a copy of exact size, of at most messages.MaxOutputDelta bytes.[39m             
[93m 75 [30m[103mfunc[39m[49m (b *Bus) PublishOutput(ev messages.OutputDelta, credits ...*Credit) {
[93m 76 [39m        credit := join(credits)                                                                                              
[7mserver.go [+]                                                                                                     74,1           26%
[0;1m[39m[49m-- INSERT --[0m[39m[49m                                                                                                             ^[
