0 0 1 0 0 29 1 0 0 0 0 0 
[1m[36m[44m back
 qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq


[0m[39m[44m             [1m[36m [37m[47mlqqqqqqqqqqqqqqqqqqq[34mA title[37mqqqqqqqqqqqqqqqqqqqqqq[0m[30m[47mk
[39m[44m             [1m[36m [37m[47mx[0m[30m[47m Choose some of them[39m                            [30mx[1m[40m  
[0m[39m[44m             [1m[36m [37m[47mx[0m[30m[47m lqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq[1m[37mk[0m[30m[47m x[1m[40m  
[0m[39m[44m             [1m[36m [37m[47mx[0m[30m[47m x[39m               [1m[37m[44m[*][0m[30m[47m [1m[31m[44ma[0m[30m[47m  [1m[37m[44mfirst[0m[39m[47m                 [1m[37mx[0m[30m[47m x[1m[40m  
[0m[39m[44m             [1m[36m [37m[47mx[0m[30m[47m x[39m               [30m[ ] [31mb[30m  second[39m                [1m[37mx[0m[30m[47m x[1m[40m  
[0m[39m[44m             [1m[36m [37m[47mx[0m[30m[47m x[39m               [30m[ ] [31mc[30m  third[39m                 [1m[37mx[0m[30m[47m x[1m[40m  
[0m[39m[44m             [1m[36m [37m[47mx[0m[30m[47m x[39m                                            [1m[37mx[0m[30m[47m x[1m[40m  
[0m[39m[44m             [1m[36m [37m[47mx[0m[30m[47m x[39m                                            [1m[37mx[0m[30m[47m x[1m[40m  
[0m[39m[44m             [1m[36m [37m[47mx[0m[30m[47m x[39m                                            [1m[37mx[0m[30m[47m x[1m[40m  
[0m[39m[44m             [1m[36m [37m[47mx[0m[30m[47m x[39m                                            [1m[37mx[0m[30m[47m x[1m[40m  
[0m[39m[44m             [1m[36m [37m[47mx[0m[30m[47m x[39m                                            [1m[37mx[0m[30m[47m x[1m[40m  
[0m[39m[44m             [1m[36m [37m[47mx[0m[30m[47m m[1m[37mqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqj[0m[30m[47m x[1m[40m  
[0m[39m[44m             [1m[36m [37m[47mtqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq[0m[30m[47mu[1m[40m  
[0m[39m[44m             [1m[36m [37m[47mx[0m[39m[47m           [1m[37m[44m<[33m  OK  [37m>[0m[39m[47m      [30m<[1mCancel[0m[30m[47m>[39m               [30mx[1m[40m  
[0m[39m[44m             [1m[36m [37m[47mm[0m[30m[47mqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqj[1m[40m  
[0m[39m[44m               [1m[36m 










