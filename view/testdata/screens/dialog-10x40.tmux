0 0 1 0 0 9 1 0 0 0 0 0 
[1m[37m[47mlqqqqqqqqqqqqq[34mA title[37mqqqqqqqqqqqqqqqq[0m[30m[47mk
[1m[37mx[0m[30m[47m Choose some of them[39m                [30mx[1m[40mq
[37m[47mx[0m[30m[47m lqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq[1m[37mk[0m[30m[47m x
[1m[37mx[0m[30m[47m x         [1m[37m[44m[*][0m[30m[47m [1m[31m[44ma[0m[30m[47m  [1m[37m[44mfirst[0m[30m[47m           [1m[37mx[0m[30m[47m x
[1m[37mx[0m[30m[47m x         [ ] [31mb[30m  second          [1m[37mx[0m[30m[47m x
[1m[37mx[0m[30m[47m m[1m[37mqqqqqqqqqqqqq[32m↓(+)[37mqqqqqqq[34m66%[37mqqqqqj[0m[30m[47m x
[1m[37mtqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq[0m[30m[47mu
[1m[37mx[0m[39m[47m       [1m[37m[44m<[33m  OK  [37m>[0m[30m[47m    <[1mCancel[0m[30m[47m>[39m         [30mx
[1m[37mm[0m[30m[47mqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqj
[1m[36m[44m  
