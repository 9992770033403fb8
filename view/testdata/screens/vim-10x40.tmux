8 3 1 1 0 9 1 0 0 1 1 0 
[93m  4 [38;5;81m^I[95m"context"[94m$
[93m  5 [38;5;81m^I[95m"fmt"[94m$[39m        
[93m  6 [38;5;81m^I[95m"slices"[94m$
[93m  7 [38;5;81m^I[39mtab[94m$[39m                              
[1;7mserver.go [+]         7,2-9           1%
[0m[93m[49m 75 [30m[103mfunc[39m[49m (b *Bus) PublishOutput(ev messa
[93m    [39mges.OutputDelta, credits ...*Credit)
[93m    [39m {                                  
[7mserver.go [+]         74,1           30%
[0;1m[39m[49m-- INSERT --[0m[39m[49m                 ^[
